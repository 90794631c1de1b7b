//! Refused targets: other machines without both confirmations, and unreachable targets.

use std::io::ErrorKind;
use std::net::TcpListener;

use super::server::ScriptedServer;
use super::stall_monitor::retry_on_stall;
use super::{OutputDir, err, out, run};

/// An address that is not loopback but is served by this machine: no packet leaves it, even if the test fails.
const NON_LOOPBACK: &str = "0.0.0.0";

#[test]
fn other_machines_are_refused_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{NON_LOOPBACK}:{}/", listener.local_addr().unwrap().port());
    let cases: [(&[&str], &str); 4] = [
        (&[], "confirm it with --target-is-mine and --yes-load 0.0.0.0"),
        (&["--target-is-mine"], "--yes-load 0.0.0.0 is missing"),
        (&["--yes-load", NON_LOOPBACK], "--target-is-mine is missing"),
        (
            &["--target-is-mine", "--yes-load", "shop.example"],
            "--yes-load shop.example does not match the host 0.0.0.0 of the URL",
        ),
    ];
    for (flags, expected) in cases {
        let output = run(&[flags, &[&url]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(expected) && err(&output).contains("nothing was sent"), "{}", err(&output));
        assert_eq!(out(&output), "");
        let accepted = listener.accept().map_err(|error| error.kind());
        assert!(matches!(accepted, Err(ErrorKind::WouldBlock)), "a connection was opened");
    }
    // Documentation addresses belong to no host.
    for url in ["http://192.0.2.1/", "http://[2001:db8::1]:8080/x", "https://203.0.113.9"] {
        let output = run(&[url]);
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains("is not this machine ("), "{}", err(&output));
    }
}

#[test]
fn a_confirmed_target_is_loaded() {
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 200));
        let url = format!("http://{NON_LOOPBACK}:{}/", server.address.port());
        let words = ["--target-is-mine", "--yes-load", NON_LOOPBACK, "--step", "500ms", "--from", "20", "--to", "20"];
        let output = run(&[&words[..], &["--p99", "2s", &url]].concat());
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        assert!(server.requests() > 5);
        assert!(!out(&output).contains("The target is this machine"), "{}", out(&output));
    });
}

#[test]
fn an_unreachable_target_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let output = run(&[&format!("http://{address}/")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output), format!("error: http://{address}/: Connection refused\n"));
    assert_eq!(out(&output), "", "nothing was measured");
}

#[test]
fn a_silent_target_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let output = run(&["--timeout", "300ms", &url]);
    assert_eq!((output.status.code(), err(&output)), (Some(1), format!("error: {url}: no response within 300ms\n")));
}

#[test]
fn invalid_options_are_reported_before_sending() {
    let folder = OutputDir::new();
    let missing = folder.file("no/rule.yaml");
    let cases: [(&[&str], &str); 9] = [
        (&["--from", "50", "--to", "20"], "--to is less than --from"),
        (&["--max-time", "2s"], "--max-time is shorter than one --step"),
        (&["--rule", &missing], "the directory does not exist"),
        (&["-H", "host: x"], "use --host"),
        (&["-H", "content-length: 7"], "it is derived from --data"),
        (&["--from", "0"], "from 1/s to 1000000/s"),
        (&["--buffer", "100%"], "from 0% to 95%"),
        (&["-X", "get"], "methods are uppercase"),
        (&["--host", "a\nb"], "invalid host name"),
    ];
    for (words, expected) in cases {
        let output = run(&[words, &["http://192.0.2.1/"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains(expected), "{words:?}: {}", err(&output));
    }
}
