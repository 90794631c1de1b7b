//! Tests of TLS connections: trusted certificates, and descriptions of certificate errors.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::settings::{self, UpstreamProtocol};
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_net::MaybeTlsStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::super::error::ConnectError;
use super::super::{Server, Upstreams};
use super::certificates::Certificates;
use super::{plain, wait_until, with_timeout};

/// A server that accepts one connection and greets it; returns its result.
async fn tls_server(certificates: &Certificates, protocols: &[&str]) -> (u16, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = certificates.acceptor(protocols);
    let greeting = tokio::spawn(async move {
        let mut stream = acceptor.accept(listener.accept().await?.0).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await
    });
    (port, greeting)
}

fn server(settings: settings::Upstream, certificates: &Certificates, clock: impl Into<ClockHandle>) -> Arc<Server> {
    let upstreams = Upstreams::new(&[settings], certificates.folder(), &clock.into()).unwrap();
    Arc::clone(&upstreams.get(0).servers()[0])
}

/// Connects to a TLS server on this host and trusts its CA.
async fn connect(
    certificates: &Certificates,
    host: &str,
    protocols: &[&str],
    protocol: UpstreamProtocol,
) -> Result<MaybeTlsStream<TcpStream>, ConnectError> {
    let (port, _greeting) = tls_server(certificates, protocols).await;
    let ca = Some("ca.pem".to_owned());
    let settings = settings::Upstream { ca, protocol, ..plain([format!("https://{host}:{port}")]) };
    with_timeout(server(settings, certificates, ClockHandle::system()).connect()).await
}

#[tokio::test]
async fn a_certificate_with_a_trusted_issuer_is_accepted() {
    let certificates = Certificates::make("IP:127.0.0.1,DNS:localhost");
    for host in ["127.0.0.1", "localhost"] {
        let mut stream = connect(&certificates, host, &[], UpstreamProtocol::Http1).await.unwrap();
        assert!(matches!(stream, MaybeTlsStream::Tls(_)));
        let mut greeting = Vec::new();
        with_timeout(stream.read_to_end(&mut greeting)).await.unwrap();
        assert_eq!(greeting, b"hello");
    }
}

#[tokio::test]
async fn alpn_selects_the_protocol() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let both = ["h2", "http/1.1"];
    for (protocol, agreed) in [(UpstreamProtocol::Http1, &b"http/1.1"[..]), (UpstreamProtocol::Http2, b"h2")] {
        let MaybeTlsStream::Tls(stream) = connect(&certificates, "127.0.0.1", &both, protocol).await.unwrap() else {
            panic!("the connection is encrypted")
        };
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(agreed));
    }
    let error = connect(&certificates, "127.0.0.1", &[], UpstreamProtocol::Http2).await.unwrap_err();
    assert!(error.to_string().ends_with("does not speak HTTP/2: set the upstream's protocol to http1"), "{error}");
    let error = connect(&certificates, "127.0.0.1", &["h2"], UpstreamProtocol::Http1).await.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn certificate_errors_are_described() {
    let valid = Certificates::make("IP:127.0.0.1,DNS:localhost");
    let (port, _greeting) = tls_server(&valid, &[]).await;
    let public = plain([format!("https://127.0.0.1:{port}")]);
    let error = with_timeout(server(public, &valid, ClockHandle::system()).connect()).await.unwrap_err();
    let unknown = "is not trusted: unknown issuer: configure the CA file with ca";
    assert_eq!(error.to_string(), format!("the certificate of 127.0.0.1:{port} {unknown}"));

    let other = Certificates::make("DNS:other.example,IP:127.0.0.2");
    for host in ["127.0.0.1", "localhost"] {
        let error = connect(&other, host, &[], UpstreamProtocol::Http1).await.unwrap_err();
        assert!(error.to_string().ends_with(&format!("not valid for {host}")), "{error}");
    }

    let expired = Certificates::until("IP:127.0.0.1", 2024);
    let error = connect(&expired, "127.0.0.1", &[], UpstreamProtocol::Http1).await.unwrap_err();
    assert!(error.to_string().ends_with("expired"), "{error}");
    assert!(!error.is_timeout());
}

#[tokio::test]
async fn a_tls_handshake_times_out() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clock = ManualClock::new();
    let settings = plain([format!("https://{}", listener.local_addr().unwrap())]);
    let silent = server(settings, &certificates, clock.clone());
    let connecting = tokio::spawn(async move { silent.connect().await });
    // The TCP connection is established; only the handshake stalls.
    let (mut accepted, _) = with_timeout(listener.accept()).await.unwrap();
    with_timeout(accepted.read_u8()).await.unwrap();
    wait_until(|| clock.pending_timers() > 0).await;
    clock.advance(Duration::from_secs(2));
    assert!(with_timeout(connecting).await.unwrap().unwrap_err().is_timeout());
}

#[tokio::test]
async fn an_unreadable_ca_file_is_rejected_at_startup() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let new = |ca: &str| {
        let settings = settings::Upstream { ca: Some(ca.to_owned()), ..plain(["https://127.0.0.1"]) };
        Upstreams::new(&[settings], certificates.folder(), &ClockHandle::system()).err().map(|error| error.to_string())
    };
    assert_eq!(new("ca.pem"), None);
    assert!(new("missing.pem").unwrap().contains("missing.pem: No such file"));
    assert!(new("names").unwrap().ends_with("no certificate found: add at least one in PEM format"));
}
