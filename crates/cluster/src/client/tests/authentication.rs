//! TLS, passwords and users.

use super::*;
use crate::options::Tls;

/// The error that names the cause. On a busy machine others may come first.
fn refused(options: &StoreOptions, expected: &str) -> String {
    let client = start(options);
    let mut error = String::new();
    until("error reported", || {
        error = client.health().last_error.unwrap_or_default();
        error.contains(expected)
    });
    assert!(client.is_degraded());
    error
}

#[test]
fn a_password_is_used_and_a_wrong_one_is_reported() {
    let server = RedisServer::start_with(&["--requirepass", "right"]).unwrap();
    let mut options = single(server.address());
    options.password = Some("right".into());
    assert_eq!(connected(options.clone(), LONG_DEADLINE).submit(add("k", 1)).wait(), Ok(1));
    options.password = Some("wrong".into());
    let error = refused(&options, "the store rejected the credentials");
    assert!(!error.contains("wrong"), "{error}");
    options.password = None;
    refused(&options, "the store rejected the credentials");
}

#[test]
fn a_user_with_minimal_acl_over_tls() {
    let user = "--user gate on >secret ~sluicegate:* -@all +eval +evalsha +script|load +time +type +del +zadd +zcard +zrem \
                +zremrangebyscore +pexpire +incrby";
    let server = RedisServer::start_with_tls(&user.split_whitespace().collect::<Vec<_>>()).unwrap();
    let (port, authority) = server.tls().unwrap();
    let mut options = single(format!("localhost:{port}"));
    options.tls = Some(Tls { authority: Some(authority) });
    options.username = Some("gate".into());
    options.password = Some("secret".into());
    let client = connected(options.clone(), LONG_DEADLINE);
    assert_eq!(client.submit(add("sluicegate:k", 1)).wait(), Ok(1));
    let failure = client.submit(add("foreign", 1)).wait().unwrap_err();
    assert!(failure.to_string().starts_with("the store rejected the credentials"), "{failure}");

    // An untrusted certificate, and no TLS at all.
    options.tls = Some(Tls::default());
    refused(&options, "certificate");
    options.tls = None;
    refused(&options, "the store cannot be reached");
}

#[test]
fn databases_are_separate() {
    let server = RedisServer::start().unwrap();
    let mut options = single(server.address());
    options.database = 5;
    assert_eq!(connected(options, LONG_DEADLINE).submit(add("k", 1)).wait(), Ok(1));
    assert_eq!(server.command(&["-n", "5", "GET", "k"]).unwrap(), "1");
    assert_eq!(stored(&server, "k"), 0);
}
