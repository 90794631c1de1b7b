//! `sluicegate health`, asked of the real program, and of what is none.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::program::{Program, until};
use crate::sluicegate;

/// Exit code, standard output and standard error.
fn asked(url: &str) -> (i32, String, String) {
    let output = sluicegate(&["health", url]);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// A program with these rules, and where its admin API is.
fn started(rules: &str) -> (Program, String) {
    let text = format!(
        "watch: false\nadmin: {{ listen: \"127.0.0.1:0\", token: secret }}\nserver: {{ http: \"127.0.0.1:0\" }}\n{rules}"
    );
    let program = Program::start(&text);
    until("the admin API is there", || program.log().contains("dashboard at "));
    let log = program.log();
    let url = log.split("dashboard at ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    (program, url.trim_end_matches('/').to_owned())
}

/// A token is set there, and none is given.
#[test]
fn a_process_with_rules_is_ready() {
    let (_program, url) = started("rules: [{ name: total, limits: [10/s] }]");
    assert_eq!(asked(&url), (0, format!("{url} is ready\n"), String::new()));
}

#[test]
fn a_process_without_rules_is_not_and_says_why() {
    let (_program, url) = started("rules: []");
    let (code, out, err) = asked(&url);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.starts_with(&format!("error: {url}: it is not ready: no rules are in force")), "{err}");
}

#[test]
fn nobody_is_not_ready() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, _, err) = asked(&format!("http://{free}"));
    assert_eq!((code, err.as_str()), (1, &*format!("error: http://{free}: it cannot be asked: Connection refused\n")));
}

#[test]
fn somebody_else_is_not_ready_and_does_no_harm() {
    for (answer, told) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it is not ready: 404 Not Found"),
        ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n\r\n{\"detail\":\"\x1b[2J no\" }", "503"),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "it is not ready: 302 Found"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "it cannot be asked"),
        ("", "it cannot be asked"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4_096]).unwrap();
            // Whoever has heard enough may be gone.
            drop(stream.write_all(answer.as_bytes()));
            read
        });
        let (code, out, err) = asked(&url);
        assert!(server.join().unwrap() > 0);
        assert_eq!((code, out.as_str()), (1, ""), "{answer:?}");
        assert!(err.contains(told) && !err.contains('\x1b'), "{answer:?}: {err:?}");
    }
}
