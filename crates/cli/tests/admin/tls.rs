//! With `admin.tls`, only those who speak TLS are answered.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{GUARD, Program, make_certificates, ran};
use crate::{TOKEN, admin, started};

fn encrypted() -> Program {
    started(
        "admin: { listen: \"127.0.0.1:0\", token: tokens, tls: { certificate: server.pem, key: server.key } }\n\
         rules: [{ name: total, limits: [7/1h] }]\n",
        make_certificates,
    )
}

/// A client that trusts the authority in this folder, if any.
fn curl(authority: Option<&Path>) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", &GUARD.as_secs().to_string(), "--noproxy", "*"]);
    if let Some(folder) = authority {
        command.arg("--cacert").arg(folder.join("ca.pem"));
    }
    command
}

/// What the listener answers who speaks TLS and has the token, and its status and version of HTTP.
fn status(program: &Program, version: &str) -> (serde_json::Value, String) {
    let mut client = curl(Some(&program.folder));
    client.args([version, "--header", &format!("Authorization: Bearer {TOKEN}")]);
    client.args(["--write-out", "\n%{http_code} %{http_version}", &format!("https://{}/v1/status", admin(program))]);
    let said = ran(&mut client);
    let (body, how) = said.rsplit_once('\n').unwrap();
    (serde_json::from_str(body).unwrap(), how.to_owned())
}

#[test]
fn whoever_speaks_tls_is_answered() {
    let program = encrypted();
    assert!(program.log().contains("dashboard at https://"), "{}", program.log());
    for (version, how) in [("--http1.1", "200 1.1"), ("--http2", "200 2")] {
        let (status, was) = status(&program, version);
        assert_eq!((status["rules"]["count"].as_u64(), was.as_str()), (Some(1), how), "{status}");
    }
    // Encryption is no token.
    let url = format!("https://{}/v1/status", admin(&program));
    let said = ran(curl(Some(&program.folder)).args(["--write-out", "\n%{http_code}", &url]));
    assert!(said.ends_with("\n401"), "{said}");
    // Whoever does not know the authority is not talked into anything.
    let Output { status, .. } = curl(None).arg(&url).output().unwrap();
    assert_eq!(status.code(), Some(60), "curl's word for a certificate that nobody vouches for");
}

#[test]
fn the_terminal_view_goes_by_tls_too() {
    let program = encrypted();
    let mut top = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    top.args(["top", "--once", "--token-file"]).arg(program.folder.join("tokens"));
    top.arg(format!("https://{}", admin(&program))).env("SSL_CERT_FILE", program.folder.join("ca.pem"));
    let said = ran(top.env_remove("SLUICEGATE_TOKEN"));
    assert!(said.contains("total") && said.contains("1 rule"), "{said}");
}

/// What the listener says to whoever sends this as it is, until it hangs up.
fn told_in_plain(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(GUARD)).unwrap();
    client.write_all(words).unwrap();
    let mut said = Vec::new();
    match client.read_to_end(&mut said) {
        // What it had not read of the words may be why the system resets.
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => said,
    }
}

/// They are hung up on at once, with no more than an alert of TLS, and nobody else notices.
#[test]
fn whoever_does_not_is_hung_up_on() {
    let program = encrypted();
    let call = format!("GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    for words in [call.as_bytes(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9]] {
        let said = told_in_plain(admin(&program), words);
        // An alert is a record of type 21 with two bytes in it.
        assert!(said.is_empty() || said.len() == 7 && said[0] == 21, "{said:?}");
    }
    let output = curl(None).arg(format!("http://{}/healthz", admin(&program))).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(status(&program, "--http2").1, "200 2");
    assert!(!program.log().contains("panicked"), "{}", program.log());
}
