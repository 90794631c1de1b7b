//! Temporary directory for the files of one program.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// Temporary directory, removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// Creates an empty directory.
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sluicegate-bench-{}-{id}", process::id()));
        fs::create_dir(&path).expect("temporary directory");
        Self(path)
    }

    /// Creates a directory with one file.
    pub(crate) fn with_file(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let dir = Self::new();
        fs::write(dir.0.join(name), bytes).expect("file is written");
        dir
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
