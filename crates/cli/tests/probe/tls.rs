//! https targets: the certificate is checked once before the load, and connections are reused.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use super::server::{ConnectionWrapper, ScriptedServer};
use super::stall_monitor::retry_on_stall;
use super::{OutputDir, err, out, probe, run};

#[derive(Clone)]
struct Encrypted(TlsAcceptor);

impl ConnectionWrapper for Encrypted {
    type Stream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    async fn wrap(self, stream: tokio::net::TcpStream) -> Option<Self::Stream> {
        self.0.accept(stream).await.ok()
    }
}

/// TLS acceptor with a self-signed certificate for `localhost`.
fn tls_acceptor(folder: &OutputDir) -> Encrypted {
    let words = "req -x509 -days 2 -subj /CN=localhost -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -keyout key.pem -out cert.pem -addext subjectAltName=DNS:localhost \
                 -addext basicConstraints=critical,CA:FALSE";
    let made = Command::new("openssl").args(words.split_whitespace()).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(folder.file("cert.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(folder.file("key.pem")).unwrap(),
        );
    Encrypted(TlsAcceptor::from(Arc::new(config.unwrap())))
}

#[test]
fn https_targets_are_loaded() {
    retry_on_stall(|| {
        let folder = OutputDir::new();
        let server = ScriptedServer::start_with(tls_acceptor(&folder), |now| (now, 200));
        let url = format!("https://localhost:{}/", server.address.port());
        let words = ["--from", "40", "--to", "40", "--step", "1s", "--p99", "2s", &url];
        let unknown = run(&words);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(err(&unknown).contains("invalid peer certificate"), "{}", err(&unknown));
        assert_eq!(server.requests(), 0);
        let output = probe(&words).env("SSL_CERT_FILE", folder.file("cert.pem")).output().unwrap();
        assert!(output.status.success(), "{}{}", out(&output), err(&output));
        let (connections, requests) = (server.seen.connections.load(Ordering::Relaxed), server.requests());
        assert!(requests >= 40 && connections < requests / 2, "{connections} connections, {requests} requests");
    });
}
