#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;

use sluicegate_engine::clock::ManualClock;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion, version};

use super::test_certs::TestCerts;
use super::*;

/// A client that trusts these certificates.
fn client(
    certs: &TestCerts,
    names: &[&str],
    version: &'static SupportedProtocolVersion,
    alpn: &[&[u8]],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for name in names {
        roots.add(CertificateDer::from_pem_file(certs.path(&format!("{name}.pem"))).unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Does a handshake; returns the ALPN result and the handshake kind (full or resumed).
async fn handshake(tls: &Tls, client: &TlsConnector) -> std::io::Result<(Option<bool>, HandshakeKind)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (server_io, client_io) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let (server, client) = tokio::join!(tls.accept(server_io), client.connect(name, client_io));
    let (mut server, mut client) = (server?, client?);
    // Session tickets come with the first data.
    server.write_all(b"x").await?;
    server.flush().await?;
    client.read_u8().await?;
    Ok((negotiated_http2(&server), client.get_ref().1.handshake_kind().unwrap()))
}

fn tls(certs: &TestCerts, name: &str) -> Result<Tls, String> {
    Tls::new(&certs.files(name)).map_err(|error| error.to_string())
}

#[tokio::test]
async fn both_tls_versions_and_both_protocols_work() {
    let certs = TestCerts::new(&["a"]);
    let tls = tls(&certs, "a").unwrap();
    for version in [&version::TLS12, &version::TLS13] {
        let agreed = [(&[b"h2" as &[u8], b"http/1.1"][..], Some(true)), (&[b"http/1.1"], Some(false)), (&[], None)];
        for (alpn, http2) in agreed {
            assert_eq!(handshake(&tls, &client(&certs, &["a"], version, alpn)).await.unwrap().0, http2);
        }
    }
}

#[tokio::test]
async fn sessions_are_resumed() {
    let certs = TestCerts::new(&["a"]);
    let tls = tls(&certs, "a").unwrap();
    for version in [&version::TLS12, &version::TLS13] {
        let client = client(&certs, &["a"], version, &[b"h2"]);
        assert_eq!(handshake(&tls, &client).await.unwrap().1, HandshakeKind::Full);
        assert_eq!(handshake(&tls, &client).await.unwrap().1, HandshakeKind::Resumed);
    }
}

#[tokio::test]
async fn a_client_without_a_protocol_in_common_is_refused() {
    let certs = TestCerts::new(&["a"]);
    let client = client(&certs, &["a"], &version::TLS13, &[b"imap"]);
    assert!(handshake(&tls(&certs, "a").unwrap(), &client).await.is_err());
}

#[test]
fn bad_files_are_reported() {
    let certs = TestCerts::new(&["a", "b"]);
    let load_error = |certificate: &str, key: &str| {
        let files = TlsFiles::new(certs.folder(), certificate, key, None);
        let error = Tls::new(&files).map(drop).unwrap_err().to_string();
        error.replace(&format!("{}/", certs.folder().display()), "")
    };
    certs.openssl("pkey -in a.key -aes256 -passout pass:secret -out encrypted.key");
    certs.openssl("ec -in a.key -aes256 -passout pass:secret -out old-encrypted.key");
    certs.openssl("genpkey -algorithm ec -pkeyopt ec_paramgen_curve:secp521r1 -out odd.key");
    fs::write(certs.path("empty"), "").unwrap();
    fs::write(certs.path("damaged.pem"), "-----BEGIN CERTIFICATE-----\nTm8=\n-----END CERTIFICATE-----\n").unwrap();
    let complete = fs::read(certs.path("a.pem")).unwrap();
    fs::write(certs.path("cut.pem"), &complete[..complete.len() / 2]).unwrap();
    fs::write(certs.path("huge"), vec![b'\n'; 1 << 21]).unwrap();

    assert!(
        load_error("none.pem", "a.key").starts_with("cannot read none.pem: No such file"),
        "{}",
        load_error("none.pem", "a.key")
    );
    assert!(load_error("a.pem", "none.key").starts_with("cannot read none.key: No such file"));
    assert!(load_error("huge", "a.key").starts_with("cannot read huge: larger than 1 MiB"));
    assert!(load_error(".", "a.key").contains("Is a directory"));
    assert!(load_error("empty", "a.key").starts_with("no certificate in empty: "));
    assert!(load_error("a.key", "a.key").starts_with("no certificate in a.key: "));
    assert!(load_error("damaged.pem", "a.key").starts_with("certificate 1 of damaged.pem is malformed"));
    assert!(load_error("cut.pem", "a.key").starts_with("certificate 1 of cut.pem is malformed"));
    assert!(load_error("a.pem", "empty").starts_with("no private key in empty: "));
    assert!(load_error("a.pem", "a.pem").starts_with("no private key in a.pem: "));
    assert!(load_error("a.pem", "encrypted.key").starts_with("the key in encrypted.key is encrypted"));
    assert!(load_error("a.pem", "old-encrypted.key").starts_with("the key in old-encrypted.key is encrypted"));
    assert!(
        load_error("a.pem", "odd.key").starts_with("unsupported or malformed key in odd.key"),
        "{}",
        load_error("a.pem", "odd.key")
    );
    assert!(load_error("a.pem", "b.key").starts_with("the key in b.key does not match the certificate in a.pem"));
}

#[test]
fn every_common_key_type_and_combined_files_are_accepted() {
    let certs = TestCerts::new(&[]);
    for (name, kind) in [("rsa", "rsa:2048"), ("ed", "ed25519"), ("p384", "ec -pkeyopt ec_paramgen_curve:secp384r1")] {
        certs.openssl(&format!(
            "req -x509 -days 2 -subj /CN={name} -newkey {kind} -nodes -keyout {name}.key -out {name}.pem"
        ));
        assert_eq!(tls(&certs, name).map(drop), Ok(()), "{name}");
    }
    let both = [fs::read(certs.path("rsa.key")).unwrap(), fs::read(certs.path("rsa.pem")).unwrap()].concat();
    fs::write(certs.path("both.pem"), both).unwrap();
    let files = TlsFiles::new(certs.folder(), "both.pem", "both.pem", None);
    assert!(Tls::new(&files).is_ok());
}

#[tokio::test]
async fn a_new_pair_takes_effect_and_a_bad_one_is_ignored() {
    let certs = TestCerts::new(&["a", "b", "c"]);
    certs.replace("live.pem", "a.pem");
    certs.replace("live.key", "a.key");
    let tls = tls(&certs, "live").unwrap();
    let serves = async |name: &str| {
        // A new client each time: a resumed session does not show the certificate.
        handshake(&tls, &client(&certs, &[name], &version::TLS13, &[b"h2"])).await.is_ok()
    };
    assert!(serves("a").await);
    assert_eq!(tls.reload().await.unwrap(), CertReload::Unchanged);

    // Between the two files of a new pair, the old pair stays active.
    certs.replace("live.pem", "b.pem");
    assert!(matches!(tls.reload().await, Err(CertificateError::Mismatch { .. })));
    assert!(
        matches!(tls.reload().await, Err(CertificateError::Mismatch { .. })),
        "an explicit reload reports it again"
    );
    assert!(serves("a").await && !serves("b").await);
    certs.replace("live.key", "b.key");
    assert_eq!(tls.reload().await.unwrap(), CertReload::Reloaded);
    assert!(serves("b").await && !serves("a").await);

    // Whatever is bad, the last valid pair stays active, and a later valid one is applied.
    fs::write(certs.path("live.pem"), "nonsense").unwrap();
    assert!(matches!(tls.reload().await, Err(CertificateError::NoCertificate { .. })));
    fs::remove_file(certs.path("live.pem")).unwrap();
    assert!(matches!(tls.reload().await, Err(CertificateError::Unreadable { .. })));
    assert!(serves("b").await);
    certs.replace("live.pem", "b.pem");
    assert_eq!(tls.reload().await.unwrap(), CertReload::Unchanged, "it is the active certificate");
    certs.replace("live.key", "c.key");
    certs.replace("live.pem", "c.pem");
    assert_eq!(tls.reload().await.unwrap(), CertReload::Reloaded);
    assert!(serves("c").await);
}

#[tokio::test]
async fn files_are_watched_and_each_change_is_reported_once() {
    let certs = TestCerts::new(&["a", "b"]);
    certs.replace("live.pem", "a.pem");
    certs.replace("live.key", "a.key");
    let tls = Arc::new(tls(&certs, "live").unwrap());
    let clock = ManualClock::new();
    let (sender, mut results) = mpsc::unbounded_channel();
    let watch = tokio::spawn({
        let (tls, clock) = (Arc::clone(&tls), ClockHandle::new(clock.clone()));
        async move { tls.watch(&clock, |result| sender.send(result.map_err(|error| error.to_string())).unwrap()).await }
    });
    // Each poll is finished when the next one is awaited.
    let next_poll = async || {
        let waiting = async || {
            while clock.pending_timers() == 0 {
                tokio::task::yield_now().await;
            }
        };
        waiting().await;
        clock.advance(certificate::POLL_INTERVAL);
        tokio::task::yield_now().await;
        waiting().await;
    };

    next_poll().await;
    assert!(results.try_recv().is_err(), "nothing has changed");
    certs.replace("live.pem", "b.pem");
    next_poll().await;
    assert!(results.try_recv().is_err(), "the file may still be changing");
    next_poll().await;
    assert!(results.try_recv().unwrap().unwrap_err().contains("does not match"));
    next_poll().await;
    assert!(results.try_recv().is_err(), "already reported");
    certs.replace("live.key", "b.key");
    next_poll().await;
    next_poll().await;
    assert_eq!(results.try_recv().unwrap(), Ok(CertReload::Reloaded));
    fs::remove_file(certs.path("live.key")).unwrap();
    next_poll().await;
    next_poll().await;
    assert!(results.try_recv().unwrap().unwrap_err().contains("cannot read"));
    next_poll().await;
    assert!(results.try_recv().is_err(), "already reported");

    // The valid pair returns, and the same error again: that is reported again.
    certs.replace("live.key", "b.key");
    next_poll().await;
    next_poll().await;
    assert!(results.try_recv().is_err(), "it is the active certificate");
    fs::remove_file(certs.path("live.key")).unwrap();
    next_poll().await;
    next_poll().await;
    assert!(results.try_recv().unwrap().unwrap_err().contains("cannot read"));

    // A chain that is being written matches its key before it is complete.
    let chain = [fs::read(certs.path("b.pem")).unwrap(), fs::read(certs.path("a.pem")).unwrap()].concat();
    fs::write(certs.path("live.pem"), &chain).unwrap();
    next_poll().await;
    certs.replace("live.key", "b.key");
    for length in [10, chain.len() - 10, chain.len()] {
        assert!(results.try_recv().is_err());
        fs::write(certs.path("live.pem"), &chain[..length]).unwrap();
        next_poll().await;
    }
    next_poll().await;
    assert_eq!(results.try_recv().unwrap(), Ok(CertReload::Reloaded));
    assert!(results.try_recv().is_err());
    watch.abort();
}
