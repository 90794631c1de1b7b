//! A folder that is gone with its owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A folder of its own below the system's one for such things.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let nth = MADE.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sluicegate-{name}-{}-{nth}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a process of the same id that was killed: not ours, and not empty.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn what_another_left_is_not_taken() {
        let next = |nth| env::temp_dir().join(format!("sluicegate-left-{}-{nth}", process::id()));
        let left: Vec<_> = (0..100).map(next).collect();
        left.iter().for_each(|path| fs::create_dir(path).unwrap());
        let folder = Folder::new("left").unwrap();
        assert!(!left.iter().any(|path| path == folder.path()), "{}", folder.path().display());
        left.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }
}
