//! Watches the rule file for changes.
//!
//! The file is polled twice a second by path, which works for in-place writes, renames, the symlinks of mounted
//! directories, and any file system. It is reloaded once it is unchanged between two polls, so that a partially
//! written file is not read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;

use super::RuleManager;
use super::types::RulesOrigin;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of files polled in a directory.
const MAX_FILES: usize = 10_000;

/// Fingerprint of a file's state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileFingerprint {
    path: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl RuleManager {
    /// Watches the origin of the rules until dropped: the file, if watching is enabled, and the store.
    pub async fn watch(self) {
        let paths = self.watched_paths();
        let mut previous = fingerprints(paths.clone()).await;
        let mut applied = previous.clone();
        loop {
            self.0.sluice.clock().sleep(POLL_INTERVAL).await;
            if !paths.is_empty() {
                let now = fingerprints(paths.clone()).await;
                let is_stable = now == previous;
                previous = now;
                if is_stable && previous != applied {
                    applied = previous.clone();
                    self.reload_if_changed().await;
                }
            }
            self.0.sync_with_store().await;
            self.0.sluice.reclaim();
        }
    }

    /// Files and directories to poll.
    fn watched_paths(&self) -> Vec<PathBuf> {
        let running = self.0.loader.running();
        if !running.watch {
            return Vec::new();
        }
        let file = match self.0.loader.origin() {
            RulesOrigin::BuiltIn => return Vec::new(),
            RulesOrigin::File(path) | RulesOrigin::Store(path) => path.clone(),
        };
        let folder = running.server.as_ref().and_then(|server| server.ratelimit_dir.as_deref());
        std::iter::once(file).chain(folder.map(PathBuf::from)).collect()
    }

    /// Reloads the text, unless it equals the one in force: then it was written by the rule manager itself.
    async fn reload_if_changed(&self) {
        let folder = self.0.loader.running().server.as_ref().and_then(|server| server.ratelimit_dir.as_ref());
        if let (RulesOrigin::File(path), None) = (self.0.loader.origin(), folder) {
            let path = path.clone();
            let text = spawn_blocking(move || sluicegate_config::read_text(path)).await;
            let (current, has_error) = {
                let state = self.0.state.lock();
                (state.text.clone(), state.last_error.is_some())
            };
            if !has_error && text.is_ok_and(|text| text.is_ok_and(|text| text == current)) {
                return;
            }
        }
        // Errors have been recorded.
        let _ = self.reload().await;
    }
}

/// Current fingerprints of the files.
async fn fingerprints(paths: Vec<PathBuf>) -> Vec<FileFingerprint> {
    // If the task fails there are no fingerprints, which does not count as a change.
    spawn_blocking(move || paths.iter().flat_map(|path| path_fingerprints(path)).collect()).await.unwrap_or_default()
}

fn path_fingerprints(path: &Path) -> Vec<FileFingerprint> {
    let itself = std::iter::once(fingerprint(path));
    let Ok(entries) = fs::read_dir(path) else { return itself.collect() };
    let mut files: Vec<FileFingerprint> =
        entries.flatten().take(MAX_FILES).map(|entry| fingerprint(&entry.path())).collect();
    files.sort();
    itself.chain(files).collect()
}

fn fingerprint(path: &Path) -> FileFingerprint {
    let metadata = fs::metadata(path).ok();
    FileFingerprint {
        path: path.to_owned(),
        modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
        bytes: metadata.as_ref().map_or(0, fs::Metadata::len),
        #[cfg(unix)]
        inode: metadata.as_ref().map_or(0, std::os::unix::fs::MetadataExt::ino),
    }
}
