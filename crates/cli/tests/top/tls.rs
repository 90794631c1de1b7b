//! https: certificates are verified, and those of `SSL_CERT_FILE` are trusted.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};

use super::admin::FakeAdmin;
use super::terminal::new_dir;
use super::{failure, out, run, top_command};

/// Creates a self-signed certificate for `localhost` and its key.
fn make_certificate(folder: &Path) {
    let words = "req -x509 -days 2 -subj /CN=localhost -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -keyout key.pem -out cert.pem -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                 -addext basicConstraints=critical,CA:FALSE";
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// TLS server with one fixed response: a stream with two ticks.
fn start_tls_server(folder: &Path) -> u16 {
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            let mut request = [0; 4_096];
            let tick = |second: u32| {
                format!("event: tick\ndata: {{\"at_ms\": {second}000, \"rules\": [{{\"name\": \"secured\"}}]}}\n\n")
            };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut talk = |stream: &mut StreamOwned<ServerConnection, TcpStream>| -> std::io::Result<()> {
                let _ = stream.read(&mut request)?;
                stream.write_all(format!("{head}{}{}", tick(1), tick(2)).as_bytes())?;
                stream.conn.send_close_notify();
                stream.flush()
            };
            // A client that does not trust the certificate disconnects.
            drop(talk(&mut stream));
        }
    });
    port
}

#[test]
fn certificates_are_checked() {
    let folder = new_dir();
    make_certificate(&folder.path);
    let port = start_tls_server(&folder.path);
    let url = format!("https://localhost:{port}");
    let unknown = failure(&run(&["--once", &url]));
    assert!(unknown.contains("invalid peer certificate"), "{unknown}");
    let trusted =
        top_command().args(["--once", &url]).env("SSL_CERT_FILE", folder.path.join("cert.pem")).output().unwrap();
    assert!(out(&trusted).contains("secured"), "{}", String::from_utf8_lossy(&trusted.stderr));
    fs::write(folder.path.join("none.pem"), "").unwrap();
    let none =
        top_command().args(["--once", &url]).env("SSL_CERT_FILE", folder.path.join("none.pem")).output().unwrap();
    assert!(failure(&none).contains("invalid peer certificate"));
}

#[test]
fn a_plaintext_server_is_reported() {
    let admin = FakeAdmin::start();
    let error = failure(&run(&["--once", &format!("https://{}", admin.address)]));
    assert!(error.contains("tls handshake") || error.contains("corrupt message"), "{error}");
}
