//! The certificate in force: the last good one that was in the files.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::pair::{CertificateError, Pair};

/// How often the files are looked at.
pub(super) const EVERY: Duration = Duration::from_secs(2);

/// What came of a look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// They hold what is in force.
    Unchanged,
    /// What they hold is in force from the next connection on.
    Renewed,
}

/// When the contents of the files are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Whatever they are.
    Whatever,
    /// If they are what they were at the last look, and have not been tried: a file that is being written is let alone.
    /// It could fit its key long before it is whole, and lack the rest of the chain.
    OnceSettled,
}

#[derive(Debug)]
pub(super) struct Certificate {
    pair: Pair,
    provider: Arc<CryptoProvider>,
    in_force: ArcSwap<CertifiedKey>,
    looks: Mutex<Looks>,
}

/// Fingerprints of what was in the files; held while they are read, so that no older look overtakes a newer one.
#[derive(Debug)]
struct Looks {
    hasher: RandomState,
    in_force: u64,
    /// At the last look; `None` if they could not be read.
    last: Option<u64>,
    /// When they were last tried.
    tried: Option<u64>,
}

impl Certificate {
    pub(super) fn new(pair: Pair, provider: Arc<CryptoProvider>) -> Result<Self, CertificateError> {
        let contents = pair.read()?;
        let certified = pair.certified(&contents, &provider)?;
        let hasher = RandomState::new();
        let in_force = contents.fingerprint(&hasher);
        let looks = Mutex::new(Looks { hasher, in_force, last: Some(in_force), tried: Some(in_force) });
        Ok(Self { pair, provider, in_force: ArcSwap::from_pointee(certified), looks })
    }

    /// Reads the files. What is bad changes nothing: a key that does not fit its certificate is what one sees while
    /// both are being replaced.
    fn look(&self, look: Look) -> Result<Renewal, CertificateError> {
        let mut looks = self.looks.lock();
        let contents = self.pair.read();
        let found = contents.as_ref().ok().map(|contents| contents.fingerprint(&looks.hasher));
        let before = std::mem::replace(&mut looks.last, found);
        if found == Some(looks.in_force) {
            looks.tried = found;
        }
        let is_due = match look {
            Look::Whatever => found != Some(looks.in_force),
            Look::OnceSettled => found == before && found != looks.tried,
        };
        if !is_due {
            return Ok(Renewal::Unchanged);
        }
        looks.tried = found;
        let contents = contents?;
        let certified = self.pair.certified(&contents, &self.provider)?;
        looks.in_force = contents.fingerprint(&looks.hasher);
        self.in_force.store(Arc::new(certified));
        Ok(Renewal::Renewed)
    }
}

/// Files can be slow: they are read where nobody is held up.
pub(super) async fn look(certificate: &Arc<Certificate>, look: Look) -> Result<Renewal, CertificateError> {
    let certificate = Arc::clone(certificate);
    let looked = tokio::task::spawn_blocking(move || certificate.look(look)).await;
    // It fails only if the runtime is shutting down: then nothing is renewed any more.
    looked.unwrap_or(Ok(Renewal::Unchanged))
}

/// Looks every few seconds, and tells each renewal, and each bad pair once.
pub(super) async fn watch(
    certificate: &Arc<Certificate>,
    clock: &ClockHandle,
    mut tell: impl FnMut(Result<Renewal, CertificateError>),
) {
    loop {
        clock.sleep(EVERY).await;
        match look(certificate, Look::OnceSettled).await {
            Ok(Renewal::Unchanged) => {}
            news => tell(news),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.in_force.load_full())
    }
}
