//! `sluicegate health` against the real program and against other servers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::program::{Program, wait_until};
use super::sluicegate;

/// Runs the command; returns exit code, standard output and standard error.
fn run_health(url: &str) -> (i32, String, String) {
    let output = sluicegate(&["health", url]);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// Starts a program with these rules; returns it with the URL of its admin API.
fn started(rules: &str) -> (Program, String) {
    let text = format!(
        "watch: false\nadmin: {{ listen: \"127.0.0.1:0\", token_file: secret }}\nserver: {{ http: \"127.0.0.1:0\" }}\n{rules}"
    );
    let program = Program::start(&text);
    wait_until("the admin API is up", || program.log().contains("dashboard at "));
    let log = program.log();
    let url = log.split("dashboard at ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    (program, url.trim_end_matches('/').to_owned())
}

/// A token is configured, and none is sent.
#[test]
fn a_process_with_rules_is_ready() {
    let (_program, url) = started("rules: [{ name: total, limits: [10/s] }]");
    assert_eq!(run_health(&url), (0, format!("{url} is ready\n"), String::new()));
}

#[test]
fn a_process_without_rules_is_not_ready_with_a_reason() {
    let (_program, url) = started("rules: []");
    let (code, out, err) = run_health(&url);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.starts_with(&format!("error: {url}: not ready: no rules are active")), "{err}");
}

#[test]
fn an_unreachable_server_is_not_ready() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, _, err) = run_health(&format!("http://{free}"));
    assert_eq!((code, err.as_str()), (1, &*format!("error: http://{free}: unreachable: Connection refused\n")));
}

#[test]
fn a_foreign_server_is_not_ready() {
    for (response, expected) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "not ready: 404 Not Found"),
        ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\r\n{\"detail\":\"\x1b[2J no\" }", "503"),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "not ready: 302 Found"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "unreachable"),
        ("", "unreachable"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4_096]).unwrap();
            // The client may have disconnected.
            drop(stream.write_all(response.as_bytes()));
            read
        });
        let (code, out, err) = run_health(&url);
        assert!(server.join().unwrap() > 0);
        assert_eq!((code, out.as_str()), (1, ""), "{response:?}");
        assert!(err.contains(expected) && !err.contains('\x1b'), "{response:?}: {err:?}");
    }
}
