//! What is not loaded: other machines, unless that is said twice, and what is not there.

use std::io::ErrorKind;
use std::net::TcpListener;

use crate::server::Server;
use crate::witness::undisturbed;
use crate::{Folder, err, out, run};

/// An address that is not loopback by name, but is answered by this machine: nothing leaves it, even if this fails.
const ELSEWHERE: &str = "0.0.0.0";

#[test]
fn other_machines_are_refused_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{ELSEWHERE}:{}/", listener.local_addr().unwrap().port());
    let cases: [(&[&str], &str); 4] = [
        (&[], "say so twice, with --target-is-mine and --yes-load 0.0.0.0"),
        (&["--target-is-mine"], "--yes-load 0.0.0.0 is missing"),
        (&["--yes-load", ELSEWHERE], "--target-is-mine is missing"),
        (
            &["--target-is-mine", "--yes-load", "shop.example"],
            "--yes-load names shop.example, but the URL names 0.0.0.0",
        ),
    ];
    for (flags, told) in cases {
        let output = run(&[flags, &[&url]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(told) && err(&output).contains("nothing was sent"), "{}", err(&output));
        assert_eq!(out(&output), "");
        let came = listener.accept().map_err(|error| error.kind());
        assert!(matches!(came, Err(ErrorKind::WouldBlock)), "somebody came");
    }
    // Addresses for documentation are nobody's.
    for url in ["http://192.0.2.1/", "http://[2001:db8::1]:8080/x", "https://203.0.113.9"] {
        let output = run(&[url]);
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains("is not this machine ("), "{}", err(&output));
    }
}

#[test]
fn what_is_allowed_twice_is_loaded() {
    undisturbed(|| {
        let server = Server::start(|now| (now, 200));
        let url = format!("http://{ELSEWHERE}:{}/", server.address.port());
        let words = ["--target-is-mine", "--yes-load", ELSEWHERE, "--step", "500ms", "--from", "20", "--to", "20"];
        let output = run(&[&words[..], &["--p99", "2s", &url]].concat());
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        assert!(server.requests() > 5);
        assert!(!out(&output).contains("The target is this machine"), "{}", out(&output));
    });
}

#[test]
fn a_target_that_is_not_there_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let output = run(&[&format!("http://{address}/")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output), format!("error: http://{address}/: Connection refused\n"));
    assert_eq!(out(&output), "", "nothing was measured");
}

#[test]
fn a_target_that_says_nothing_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let output = run(&["--timeout", "300ms", &url]);
    assert_eq!((output.status.code(), err(&output)), (Some(1), format!("error: {url}: no answer in 300ms\n")));
}

#[test]
fn what_cannot_be_is_told_before_anything_is_sent() {
    let folder = Folder::new();
    let nowhere = folder.file("no/rule.yaml");
    let cases: [(&[&str], &str); 9] = [
        (&["--from", "50", "--to", "20"], "--to is less than --from"),
        (&["--max-time", "2s"], "--max-time is shorter than one --step"),
        (&["--rule", &nowhere], "there is no such folder"),
        (&["-H", "host: x"], "give it with --host"),
        (&["-H", "content-length: 7"], "it follows from --data"),
        (&["--from", "0"], "it is from 1/s"),
        (&["--buffer", "100%"], "from 0% to 95%"),
        (&["-X", "get"], "capital letters"),
        (&["--host", "a\nb"], "no name of a host"),
    ];
    for (words, told) in cases {
        let output = run(&[words, &["http://192.0.2.1/"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains(told), "{words:?}: {}", err(&output));
    }
}
