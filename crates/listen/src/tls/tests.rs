#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;

use sluicegate_engine::clock::ManualClock;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion, version};

use super::made::Made;
use super::*;

/// A client that trusts these certificates.
fn client(made: &Made, names: &[&str], version: &'static SupportedProtocolVersion, alpn: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for name in names {
        roots.add(CertificateDer::from_pem_file(made.path(&format!("{name}.pem"))).unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Shakes hands and says how: whether HTTP/2 was agreed on, and whether the client was known.
async fn meet(tls: &Tls, client: &TlsConnector) -> std::io::Result<(Option<bool>, HandshakeKind)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let (server, client) = tokio::join!(tls.accept(ours), client.connect(name, theirs));
    let (mut server, mut client) = (server?, client?);
    // Tickets come with the first data.
    server.write_all(b"x").await?;
    server.flush().await?;
    client.read_u8().await?;
    Ok((is_http2(&server), client.get_ref().1.handshake_kind().unwrap()))
}

fn tls(made: &Made, name: &str) -> Result<Tls, String> {
    Tls::new(&made.files(name), made.folder()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn both_versions_and_both_protocols_are_spoken() {
    let made = Made::new(&["a"]);
    let tls = tls(&made, "a").unwrap();
    for version in [&version::TLS12, &version::TLS13] {
        let agreed = [(&[b"h2" as &[u8], b"http/1.1"][..], Some(true)), (&[b"http/1.1"], Some(false)), (&[], None)];
        for (alpn, http2) in agreed {
            assert_eq!(meet(&tls, &client(&made, &["a"], version, alpn)).await.unwrap().0, http2);
        }
    }
}

#[tokio::test]
async fn whoever_comes_back_is_known() {
    let made = Made::new(&["a"]);
    let tls = tls(&made, "a").unwrap();
    for version in [&version::TLS12, &version::TLS13] {
        let client = client(&made, &["a"], version, &[b"h2"]);
        assert_eq!(meet(&tls, &client).await.unwrap().1, HandshakeKind::Full);
        assert_eq!(meet(&tls, &client).await.unwrap().1, HandshakeKind::Resumed);
    }
}

#[tokio::test]
async fn a_client_without_a_protocol_in_common_is_refused() {
    let made = Made::new(&["a"]);
    let client = client(&made, &["a"], &version::TLS13, &[b"imap"]);
    assert!(meet(&tls(&made, "a").unwrap(), &client).await.is_err());
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let made = Made::new(&["a", "b"]);
    let wrong = |certificate: &str, key: &str| {
        let files = settings::Certificate { certificate: certificate.to_owned(), key: key.to_owned(), client_ca: None };
        let error = Tls::new(&files, made.folder()).map(drop).unwrap_err().to_string();
        error.replace(&format!("{}/", made.folder().display()), "")
    };
    made.openssl("pkey -in a.key -aes256 -passout pass:secret -out encrypted.key");
    made.openssl("ec -in a.key -aes256 -passout pass:secret -out old-encrypted.key");
    made.openssl("genpkey -algorithm ec -pkeyopt ec_paramgen_curve:secp521r1 -out odd.key");
    fs::write(made.path("empty"), "").unwrap();
    fs::write(made.path("damaged.pem"), "-----BEGIN CERTIFICATE-----\nTm8=\n-----END CERTIFICATE-----\n").unwrap();
    let whole = fs::read(made.path("a.pem")).unwrap();
    fs::write(made.path("cut.pem"), &whole[..whole.len() / 2]).unwrap();
    fs::write(made.path("huge"), vec![b'\n'; 1 << 21]).unwrap();

    assert!(
        wrong("none.pem", "a.key").starts_with("cannot read none.pem: No such file"),
        "{}",
        wrong("none.pem", "a.key")
    );
    assert!(wrong("a.pem", "none.key").starts_with("cannot read none.key: No such file"));
    assert!(wrong("huge", "a.key").starts_with("cannot read huge: it is larger than 1 MiB"));
    assert!(wrong(".", "a.key").contains("Is a directory"));
    assert!(wrong("empty", "a.key").starts_with("there is no certificate in empty: "));
    assert!(wrong("a.key", "a.key").starts_with("there is no certificate in a.key: "));
    assert!(wrong("damaged.pem", "a.key").starts_with("certificate 1 of damaged.pem is damaged"));
    assert!(wrong("cut.pem", "a.key").starts_with("certificate 1 of cut.pem is damaged"));
    assert!(wrong("a.pem", "empty").starts_with("there is no private key in empty: "));
    assert!(wrong("a.pem", "a.pem").starts_with("there is no private key in a.pem: "));
    assert!(wrong("a.pem", "encrypted.key").starts_with("the key in encrypted.key is encrypted"));
    assert!(wrong("a.pem", "old-encrypted.key").starts_with("the key in old-encrypted.key is encrypted"));
    assert!(
        wrong("a.pem", "odd.key").starts_with("the key in odd.key cannot be used"),
        "{}",
        wrong("a.pem", "odd.key")
    );
    assert!(wrong("a.pem", "b.key").starts_with("the key in b.key does not fit the certificate in a.pem"));
}

#[test]
fn keys_of_every_usual_kind_and_both_in_one_file_are_taken() {
    let made = Made::new(&[]);
    for (name, kind) in [("rsa", "rsa:2048"), ("ed", "ed25519"), ("p384", "ec -pkeyopt ec_paramgen_curve:secp384r1")] {
        made.openssl(&format!(
            "req -x509 -days 2 -subj /CN={name} -newkey {kind} -nodes -keyout {name}.key -out {name}.pem"
        ));
        assert_eq!(tls(&made, name).map(drop), Ok(()), "{name}");
    }
    let both = [fs::read(made.path("rsa.key")).unwrap(), fs::read(made.path("rsa.pem")).unwrap()].concat();
    fs::write(made.path("both.pem"), both).unwrap();
    let files =
        settings::Certificate { certificate: "both.pem".to_owned(), key: "both.pem".to_owned(), client_ca: None };
    assert!(Tls::new(&files, made.folder()).is_ok());
}

#[tokio::test]
async fn a_new_pair_takes_effect_and_a_bad_one_does_not() {
    let made = Made::new(&["a", "b", "c"]);
    made.replace("live.pem", "a.pem");
    made.replace("live.key", "a.key");
    let tls = tls(&made, "live").unwrap();
    let shows = async |name: &str| {
        // A new client each time: one that comes back is not shown the certificate.
        meet(&tls, &client(&made, &[name], &version::TLS13, &[b"h2"])).await.is_ok()
    };
    assert!(shows("a").await);
    assert_eq!(tls.reload().await.unwrap(), Renewal::Unchanged);

    // Between the two files of a new pair, the old one stays.
    made.replace("live.pem", "b.pem");
    assert!(matches!(tls.reload().await, Err(CertificateError::Mismatch { .. })));
    assert!(matches!(tls.reload().await, Err(CertificateError::Mismatch { .. })), "on demand it is told again");
    assert!(shows("a").await && !shows("b").await);
    made.replace("live.key", "b.key");
    assert_eq!(tls.reload().await.unwrap(), Renewal::Renewed);
    assert!(shows("b").await && !shows("a").await);

    // Whatever is bad, the last good one stays, and a good one is taken thereafter.
    fs::write(made.path("live.pem"), "nonsense").unwrap();
    assert!(matches!(tls.reload().await, Err(CertificateError::NoCertificate { .. })));
    fs::remove_file(made.path("live.pem")).unwrap();
    assert!(matches!(tls.reload().await, Err(CertificateError::Unreadable { .. })));
    assert!(shows("b").await);
    made.replace("live.pem", "b.pem");
    assert_eq!(tls.reload().await.unwrap(), Renewal::Unchanged, "it is what is in force");
    made.replace("live.key", "c.key");
    made.replace("live.pem", "c.pem");
    assert_eq!(tls.reload().await.unwrap(), Renewal::Renewed);
    assert!(shows("c").await);
}

#[tokio::test]
async fn the_files_are_watched_and_each_change_is_told_once() {
    let made = Made::new(&["a", "b"]);
    made.replace("live.pem", "a.pem");
    made.replace("live.key", "a.key");
    let tls = Arc::new(tls(&made, "live").unwrap());
    let clock = ManualClock::new();
    let (tell, mut told) = mpsc::unbounded_channel();
    let watch = tokio::spawn({
        let (tls, clock) = (Arc::clone(&tls), ClockHandle::new(clock.clone()));
        async move { tls.watch(&clock, |news| tell.send(news.map_err(|error| error.to_string())).unwrap()).await }
    });
    // Each look is over when the next one is waited for.
    let look = async || {
        let waiting = async || {
            while clock.alarms() == 0 {
                tokio::task::yield_now().await;
            }
        };
        waiting().await;
        clock.advance(certificate::EVERY);
        tokio::task::yield_now().await;
        waiting().await;
    };

    look().await;
    assert!(told.try_recv().is_err(), "nothing has changed");
    made.replace("live.pem", "b.pem");
    look().await;
    assert!(told.try_recv().is_err(), "it may be changing still");
    look().await;
    assert!(told.try_recv().unwrap().unwrap_err().contains("does not fit"));
    look().await;
    assert!(told.try_recv().is_err(), "it has been told");
    made.replace("live.key", "b.key");
    look().await;
    look().await;
    assert_eq!(told.try_recv().unwrap(), Ok(Renewal::Renewed));
    fs::remove_file(made.path("live.key")).unwrap();
    look().await;
    look().await;
    assert!(told.try_recv().unwrap().unwrap_err().contains("cannot read"));
    look().await;
    assert!(told.try_recv().is_err(), "it has been told");

    // The good one comes back, and the same trouble again: that is news.
    made.replace("live.key", "b.key");
    look().await;
    look().await;
    assert!(told.try_recv().is_err(), "it is what is in force");
    fs::remove_file(made.path("live.key")).unwrap();
    look().await;
    look().await;
    assert!(told.try_recv().unwrap().unwrap_err().contains("cannot read"));

    // A chain that is being written fits its key before it is whole.
    let chain = [fs::read(made.path("b.pem")).unwrap(), fs::read(made.path("a.pem")).unwrap()].concat();
    fs::write(made.path("live.pem"), &chain).unwrap();
    look().await;
    made.replace("live.key", "b.key");
    for length in [10, chain.len() - 10, chain.len()] {
        assert!(told.try_recv().is_err());
        fs::write(made.path("live.pem"), &chain[..length]).unwrap();
        look().await;
    }
    look().await;
    assert_eq!(told.try_recv().unwrap(), Ok(Renewal::Renewed));
    assert!(told.try_recv().is_err());
    watch.abort();
}
