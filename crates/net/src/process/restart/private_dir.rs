//! Private temporary directory, removed on drop.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A directory below the system's temporary directory that only this user can access.
#[derive(Debug)]
pub struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates a directory with `name` in its name.
    pub fn new(name: &str) -> io::Result<Self> {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        loop {
            let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sluicegate-{name}-{}-{index}", process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // It belongs to another process, whatever it contains.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // The system cleans up a directory that cannot be removed here.
        drop(fs::remove_dir_all(&self.0));
    }
}
