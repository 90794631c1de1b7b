//! `sluicegate top` against the real program.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::program::{Program, TEST_TIMEOUT, wait_until};
use super::terminal::Terminal;
use super::{failure, out, run};

const TOKEN: &str = "a-token-for-tests-0123456789";
const RULES: &str = r#"
watch: false
admin: { listen: "127.0.0.1:0", token_file: tokens }
server: { http: "127.0.0.1:0" }
gateway:
  listen: 127.0.0.1:0
  upstreams: { demo: builtin }
  routes: [{ path: "/{*rest}", upstream: demo }]
rules:
  - { name: three-an-hour, match: "/**", key: client.ip, limits: [3/1h] }
  - { name: unused, match: /unused, limits: [1/1h] }
"#;

/// The address behind these words in the log.
fn address_after(program: &Program, before: &str) -> SocketAddr {
    let log = program.log();
    let rest = log.split(before).nth(1).unwrap_or_else(|| panic!("{log}"));
    rest.split(|letter: char| letter == '/' || letter.is_whitespace()).next().unwrap().parse().unwrap()
}

fn status(gateway: SocketAddr) -> String {
    let mut stream = TcpStream::connect(gateway).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn the_refusing_rule_is_shown() {
    let program =
        Program::start_with(RULES, |folder| fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap());
    wait_until("the admin API is up", || program.log().contains("dashboard at "));
    let (gateway, url) = (
        address_after(&program, "listening at "),
        format!("http://{}", address_after(&program, "dashboard at http://")),
    );
    let statuses: Vec<String> = (0..8).map(|_| status(gateway)).collect();
    assert_eq!(statuses.iter().filter(|status| *status == "429").count(), 5, "{statuses:?}");

    assert!(failure(&run(&["--once", &url])).contains("a token is required"));
    let tokens = program.folder.join("tokens");
    let tokens = tokens.to_str().unwrap();
    let output = run(&["--once", "--token-file", tokens, &url]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = rows.iter().find(|row| row.first() == Some(&"three-an-hour")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(row[1..3], ["3", "5"], "{text}");
    assert!(text.contains("unused") && text.contains("2 rules"), "{text}");

    let mut terminal = Terminal::run(&format!("{url} --token-file '{tokens}'"), &[]);
    terminal.wait_for_line("three-an-hour");
    terminal.wait_for_line("live");
    terminal.type_keys("2");
    terminal.wait_for_line("127.0.0.1 ");
    terminal.type_keys("4");
    terminal.wait_for_line("token access     write");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
}
