//! With `admin.tls`, only TLS clients are served.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use super::program::{Program, TEST_TIMEOUT, make_certificates, run_command};
use super::{TOKEN, admin, started};

fn encrypted() -> Program {
    started(
        "admin: { listen: \"127.0.0.1:0\", token_file: tokens, tls: { certificate: server.pem, key: server.key } }\n\
         rules: [{ name: total, limits: [7/1h] }]\n",
        make_certificates,
    )
}

/// A client that trusts the authority in this folder, if any.
fn curl(authority: Option<&Path>) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", &TEST_TIMEOUT.as_secs().to_string(), "--noproxy", "*"]);
    if let Some(folder) = authority {
        command.arg("--cacert").arg(folder.join("ca.pem"));
    }
    command
}

/// Response to a TLS client with the token: body, and status with HTTP version.
fn status(program: &Program, version: &str) -> (serde_json::Value, String) {
    let mut client = curl(Some(&program.folder));
    client.args([version, "--header", &format!("Authorization: Bearer {TOKEN}")]);
    client.args(["--write-out", "\n%{http_code} %{http_version}", &format!("https://{}/v1/status", admin(program))]);
    let output = run_command(&mut client);
    let (body, details) = output.rsplit_once('\n').unwrap();
    (serde_json::from_str(body).unwrap(), details.to_owned())
}

#[test]
fn tls_clients_are_served() {
    let program = encrypted();
    assert!(program.log().contains("dashboard at https://"), "{}", program.log());
    for (version, details) in [("--http1.1", "200 1.1"), ("--http2", "200 2")] {
        let (status, was) = status(&program, version);
        assert_eq!((status["rules"]["count"].as_u64(), was.as_str()), (Some(1), details), "{status}");
    }
    // TLS does not replace the token.
    let url = format!("https://{}/v1/status", admin(&program));
    let output = run_command(curl(Some(&program.folder)).args(["--write-out", "\n%{http_code}", &url]));
    assert!(output.ends_with("\n401"), "{output}");
    // A client that does not trust the authority rejects the server.
    let Output { status, .. } = curl(None).arg(&url).output().unwrap();
    assert_eq!(status.code(), Some(60), "exit code of curl for an untrusted certificate");
}

#[test]
fn top_works_over_tls() {
    let program = encrypted();
    let mut top = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    top.args(["top", "--once", "--token-file"]).arg(program.folder.join("tokens"));
    top.arg(format!("https://{}", admin(&program))).env("SSL_CERT_FILE", program.folder.join("ca.pem"));
    let output = run_command(top.env_remove("SLUICEGATE_TOKEN"));
    assert!(output.contains("total") && output.contains("1 rule"), "{output}");
}

/// Reply of the listener to these plaintext bytes, until it closes the connection.
fn plaintext_reply(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    client.write_all(words).unwrap();
    let mut output = Vec::new();
    match client.read_to_end(&mut output) {
        // Unread bytes may cause a reset.
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => output,
    }
}

/// Plaintext clients are disconnected at once, with at most a TLS alert; other clients are not affected.
#[test]
fn plaintext_clients_are_disconnected() {
    let program = encrypted();
    let call = format!("GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    for words in [call.as_bytes(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9]] {
        let output = plaintext_reply(admin(&program), words);
        // An alert is a record of type 21 with two bytes.
        assert!(output.is_empty() || output.len() == 7 && output[0] == 21, "{output:?}");
    }
    let output = curl(None).arg(format!("http://{}/healthz", admin(&program))).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(status(&program, "--http2").1, "200 2");
    assert!(!program.log().contains("panicked"), "{}", program.log());
}
