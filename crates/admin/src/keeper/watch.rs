//! Noticing that the file has changed.
//!
//! The file is looked at twice a second, by name: so it does not matter whether it is written in place, exchanged by
//! a rename or by the links of a mounted folder, nor what kind of file system it lies on. It is read when it has
//! stayed the same from one look to the next, so that nobody's half-written file is taken for the whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;

use super::Keeper;
use super::told::Origin;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(500);

/// How many files of a folder are looked at.
const MOST_FILES: usize = 10_000;

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    path: PathBuf,
    changed: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Keeper {
    /// Follows the text wherever it lives, until it is dropped: the file, if it is to be watched, and the store.
    pub async fn follow(self) {
        let paths = self.watched();
        let mut seen = look(paths.clone()).await;
        let mut in_force = seen.clone();
        loop {
            self.0.sluice.clock().sleep(EVERY).await;
            if !paths.is_empty() {
                let now = look(paths.clone()).await;
                let is_still = now == seen;
                seen = now;
                if is_still && seen != in_force {
                    in_force = seen.clone();
                    self.file_changed().await;
                }
            }
            self.0.follow_fleet().await;
            self.0.sluice.tidy();
        }
    }

    /// The files and folders to look at.
    fn watched(&self) -> Vec<PathBuf> {
        let running = self.0.reader.running();
        if !running.watch {
            return Vec::new();
        }
        let file = match self.0.reader.origin() {
            Origin::BuiltIn => return Vec::new(),
            Origin::File(path) | Origin::Store(path) => path.clone(),
        };
        let folder = running.server.as_ref().and_then(|server| server.ratelimit.as_deref());
        std::iter::once(file).chain(folder.map(PathBuf::from)).collect()
    }

    /// Reads the text again, unless it is the one in force: then somebody has written it through the keeper.
    async fn file_changed(&self) {
        let folder = self.0.reader.running().server.as_ref().and_then(|server| server.ratelimit.as_ref());
        if let (Origin::File(path), None) = (self.0.reader.origin(), folder) {
            let path = path.clone();
            let text = spawn_blocking(move || sluicegate_config::read_text(path)).await;
            let (current, trouble) = {
                let state = self.0.state.lock();
                (state.text.clone(), state.trouble.is_some())
            };
            if !trouble && text.is_ok_and(|text| text.is_ok_and(|text| text == current)) {
                return;
            }
        }
        // What goes wrong has been noted.
        let _ = self.reload().await;
    }
}

/// How the files are now.
async fn look(paths: Vec<PathBuf>) -> Vec<Mark> {
    // Who cannot look sees nothing, and nothing is no change.
    spawn_blocking(move || paths.iter().flat_map(|path| marks(path)).collect()).await.unwrap_or_default()
}

fn marks(path: &Path) -> Vec<Mark> {
    let own = std::iter::once(mark(path));
    let Ok(entries) = fs::read_dir(path) else { return own.collect() };
    let mut within: Vec<Mark> = entries.flatten().take(MOST_FILES).map(|entry| mark(&entry.path())).collect();
    within.sort();
    own.chain(within).collect()
}

fn mark(path: &Path) -> Mark {
    let about = fs::metadata(path).ok();
    Mark {
        path: path.to_owned(),
        changed: about.as_ref().and_then(|about| about.modified().ok()),
        bytes: about.as_ref().map_or(0, fs::Metadata::len),
        #[cfg(unix)]
        inode: about.as_ref().map_or(0, std::os::unix::fs::MetadataExt::ino),
    }
}
