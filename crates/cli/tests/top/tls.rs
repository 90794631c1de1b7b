//! https: certificates are checked, and those of `SSL_CERT_FILE` are trusted.

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

use crate::admin::Admin;
use crate::terminal::folder;
use crate::{failure, out, run, top};

/// A certificate for `localhost` that signs itself, and its key.
fn make_certificate(folder: &Path) {
    let words = "req -x509 -days 2 -subj /CN=localhost -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -keyout key.pem -out cert.pem -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                 -addext basicConstraints=critical,CA:FALSE";
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Speaks TLS with whoever comes. One answer is all they get: a stream with two figures.
fn encrypted(folder: &Path) -> u16 {
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
            let mut asked = [0; 4_096];
            let tick = |second: u32| {
                format!("event: tick\ndata: {{\"at_ms\": {second}000, \"rules\": [{{\"name\": \"secured\"}}]}}\n\n")
            };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut talk = |stream: &mut StreamOwned<ServerConnection, TcpStream>| -> std::io::Result<()> {
                let _ = stream.read(&mut asked)?;
                stream.write_all(format!("{head}{}{}", tick(1), tick(2)).as_bytes())?;
                stream.conn.send_close_notify();
                stream.flush()
            };
            // Who does not trust the certificate hangs up.
            drop(talk(&mut stream));
        }
    });
    port
}

#[test]
fn certificates_are_checked() {
    let folder = folder();
    make_certificate(&folder.path);
    let port = encrypted(&folder.path);
    let url = format!("https://localhost:{port}");
    let unknown = failure(&run(&["--once", &url]));
    assert!(unknown.contains("invalid peer certificate"), "{unknown}");
    let trusted = top().args(["--once", &url]).env("SSL_CERT_FILE", folder.path.join("cert.pem")).output().unwrap();
    assert!(out(&trusted).contains("secured"), "{}", String::from_utf8_lossy(&trusted.stderr));
    fs::write(folder.path.join("none.pem"), "").unwrap();
    let none = top().args(["--once", &url]).env("SSL_CERT_FILE", folder.path.join("none.pem")).output().unwrap();
    assert!(failure(&none).contains("invalid peer certificate"));
}

#[test]
fn a_server_without_encryption_is_told() {
    let admin = Admin::start();
    let told = failure(&run(&["--once", &format!("https://{}", admin.address)]));
    assert!(told.contains("tls handshake") || told.contains("corrupt message"), "{told}");
}
