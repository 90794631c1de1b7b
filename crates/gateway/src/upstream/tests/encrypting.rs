//! Connections with TLS: who is believed, and what is said of who is not.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::settings::{self, UpstreamProtocol};
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_listen::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::super::error::ConnectError;
use super::super::{Server, Upstreams};
use super::certificates::Certificates;
use super::{in_time, plain, until};

/// A server that greets once; what came of it.
async fn greeter(certificates: &Certificates, protocols: &[&str]) -> (u16, JoinHandle<io::Result<()>>) {
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

/// Connects to a greeter on this host, believing its authority.
async fn connect(
    certificates: &Certificates,
    host: &str,
    spoken: &[&str],
    protocol: UpstreamProtocol,
) -> Result<Stream<TcpStream>, ConnectError> {
    let (port, _greeting) = greeter(certificates, spoken).await;
    let ca = Some("ca.pem".to_owned());
    let settings = settings::Upstream { ca, protocol, ..plain([format!("https://{host}:{port}")]) };
    in_time(server(settings, certificates, ClockHandle::system()).connect()).await
}

#[tokio::test]
async fn who_is_vouched_for_is_believed() {
    let certificates = Certificates::make("IP:127.0.0.1,DNS:localhost");
    for host in ["127.0.0.1", "localhost"] {
        let mut stream = connect(&certificates, host, &[], UpstreamProtocol::Http1).await.unwrap();
        assert!(matches!(stream, Stream::Tls(_)));
        let mut greeting = Vec::new();
        in_time(stream.read_to_end(&mut greeting)).await.unwrap();
        assert_eq!(greeting, b"hello");
    }
}

#[tokio::test]
async fn the_protocol_is_agreed_on() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let both = ["h2", "http/1.1"];
    for (protocol, agreed) in [(UpstreamProtocol::Http1, &b"http/1.1"[..]), (UpstreamProtocol::Http2, b"h2")] {
        let Stream::Tls(stream) = connect(&certificates, "127.0.0.1", &both, protocol).await.unwrap() else {
            panic!("it is encrypted")
        };
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(agreed));
    }
    let error = connect(&certificates, "127.0.0.1", &[], UpstreamProtocol::Http2).await.unwrap_err();
    assert!(error.to_string().ends_with("does not speak HTTP/2: set the upstream's protocol to http1"), "{error}");
    let error = connect(&certificates, "127.0.0.1", &["h2"], UpstreamProtocol::Http1).await.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn who_cannot_be_trusted_is_told_in_words() {
    let good = Certificates::make("IP:127.0.0.1,DNS:localhost");
    let (port, _greeting) = greeter(&good, &[]).await;
    let public = plain([format!("https://127.0.0.1:{port}")]);
    let error = in_time(server(public, &good, ClockHandle::system()).connect()).await.unwrap_err();
    let unknown = "cannot be trusted: nobody known vouches for its certificate: name the file of who does with ca";
    assert_eq!(error.to_string(), format!("127.0.0.1:{port} {unknown}"));

    let other = Certificates::make("DNS:other.example,IP:127.0.0.2");
    for host in ["127.0.0.1", "localhost"] {
        let error = connect(&other, host, &[], UpstreamProtocol::Http1).await.unwrap_err();
        assert!(error.to_string().ends_with(&format!("its certificate is not for {host}")), "{error}");
    }

    let expired = Certificates::until("IP:127.0.0.1", 2024);
    let error = connect(&expired, "127.0.0.1", &[], UpstreamProtocol::Http1).await.unwrap_err();
    assert!(error.to_string().ends_with("its certificate has expired"), "{error}");
    assert!(!error.is_timeout());
}

#[tokio::test]
async fn who_speaks_no_tls_is_not_waited_for_too_long() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clock = ManualClock::new();
    let settings = plain([format!("https://{}", listener.local_addr().unwrap())]);
    let silent = server(settings, &certificates, clock.clone());
    let connecting = tokio::spawn(async move { silent.connect().await });
    // The connection is made; only the handshake hangs.
    let (mut accepted, _) = in_time(listener.accept()).await.unwrap();
    in_time(accepted.read_u8()).await.unwrap();
    until(|| clock.alarms() > 0).await;
    clock.advance(Duration::from_secs(2));
    assert!(in_time(connecting).await.unwrap().unwrap_err().is_timeout());
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_refused_at_the_start() {
    let certificates = Certificates::make("IP:127.0.0.1");
    let new = |ca: &str| {
        let settings = settings::Upstream { ca: Some(ca.to_owned()), ..plain(["https://127.0.0.1"]) };
        Upstreams::new(&[settings], certificates.folder(), &ClockHandle::system()).err().map(|error| error.to_string())
    };
    assert_eq!(new("ca.pem"), None);
    assert!(new("missing.pem").unwrap().contains("missing.pem cannot be used: No such file"));
    assert!(new("names").unwrap().ends_with("it has none: it must have at least one, in PEM"));
}
