//! Temporary directory that is removed on drop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// Unique directory below the system's temporary directory.
#[derive(Debug)]
pub(super) struct TempDir(PathBuf);

impl TempDir {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        static NEXT_INDEX: AtomicU32 = AtomicU32::new(0);
        loop {
            let index = NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sluicegate-{name}-{}-{index}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a killed process with the same id: not ours, and not empty.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Cleanup is best effort.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn existing_directories_are_skipped() {
        let next = |index| env::temp_dir().join(format!("sluicegate-left-{}-{index}", process::id()));
        let existing: Vec<_> = (0..100).map(next).collect();
        existing.iter().for_each(|path| fs::create_dir(path).unwrap());
        let dir = TempDir::new("left").unwrap();
        assert!(!existing.iter().any(|path| path == dir.path()), "{}", dir.path().display());
        existing.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }
}
