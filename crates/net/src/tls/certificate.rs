//! Reloadable server certificate: the last valid key pair found in its files.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::key_pair::{CertificateError, KeyPairFiles};

/// Poll interval of the certificate files.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Result of a certificate reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertReload {
    /// The files contain the active certificate.
    Unchanged,
    /// A new certificate is active from the next connection on.
    Reloaded,
}

/// Condition under which the file contents are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReloadMode {
    /// Always.
    Always,
    /// Only if the files are unchanged since the last poll and not tried yet, so that a file still being written is
    /// skipped. It could match its key before it is complete, and lack the remaining chain.
    WhenStable,
}

#[derive(Debug)]
pub(super) struct ReloadingCert {
    key_pair: KeyPairFiles,
    provider: Arc<CryptoProvider>,
    active: ArcSwap<CertifiedKey>,
    watcher: Mutex<CertWatcher>,
}

/// Fingerprints of the file contents. Locked while the files are read, so that no older read overtakes a newer
/// one.
#[derive(Debug)]
struct CertWatcher {
    hasher: RandomState,
    active: u64,
    /// At the last poll; `None` if the files could not be read.
    last_seen: Option<u64>,
    /// At the last try.
    last_tried: Option<u64>,
}

impl ReloadingCert {
    pub(super) fn new(pair: KeyPairFiles, provider: Arc<CryptoProvider>) -> Result<Self, CertificateError> {
        let contents = pair.read()?;
        let certified = pair.certified_key(&contents, &provider)?;
        let hasher = RandomState::new();
        let active = contents.fingerprint(&hasher);
        let watcher = Mutex::new(CertWatcher { hasher, active, last_seen: Some(active), last_tried: Some(active) });
        Ok(Self { key_pair: pair, provider, active: ArcSwap::from_pointee(certified), watcher })
    }

    /// Reads the files. A bad pair changes nothing: a key that does not match its certificate is normal while both
    /// are being replaced.
    fn reload(&self, mode: ReloadMode) -> Result<CertReload, CertificateError> {
        let mut watcher = self.watcher.lock();
        let contents = self.key_pair.read();
        let found = contents.as_ref().ok().map(|contents| contents.fingerprint(&watcher.hasher));
        let before = std::mem::replace(&mut watcher.last_seen, found);
        if found == Some(watcher.active) {
            watcher.last_tried = found;
        }
        let is_due = match mode {
            ReloadMode::Always => found != Some(watcher.active),
            ReloadMode::WhenStable => found == before && found != watcher.last_tried,
        };
        if !is_due {
            return Ok(CertReload::Unchanged);
        }
        watcher.last_tried = found;
        let contents = contents?;
        let certified = self.key_pair.certified_key(&contents, &self.provider)?;
        watcher.active = contents.fingerprint(&watcher.hasher);
        self.active.store(Arc::new(certified));
        Ok(CertReload::Reloaded)
    }
}

/// Reads the files on a blocking thread, since file systems can be slow.
pub(super) async fn reload(certificate: &Arc<ReloadingCert>, mode: ReloadMode) -> Result<CertReload, CertificateError> {
    let certificate = Arc::clone(certificate);
    let result = tokio::task::spawn_blocking(move || certificate.reload(mode)).await;
    // This fails only if the runtime is shutting down.
    result.unwrap_or(Ok(CertReload::Unchanged))
}

/// Polls the files every few seconds; reports each reload, and each bad pair once.
pub(super) async fn watch(
    certificate: &Arc<ReloadingCert>,
    clock: &ClockHandle,
    mut on_reload: impl FnMut(Result<CertReload, CertificateError>),
) {
    loop {
        clock.sleep(POLL_INTERVAL).await;
        match reload(certificate, ReloadMode::WhenStable).await {
            Ok(CertReload::Unchanged) => {}
            result => on_reload(result),
        }
    }
}

impl ResolvesServerCert for ReloadingCert {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.active.load_full())
    }
}
