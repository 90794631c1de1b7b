//! A folder that nobody else may look into, gone with its owner.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A folder of its own below the system's one for such things.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Makes one, with this in its name.
    pub fn new(name: &str) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let nth = MADE.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sluicegate-{name}-{}-{nth}", process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Another's, whatever is in it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        drop(fs::remove_dir_all(&self.0));
    }
}
