//! Temporary directory that is removed on drop.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        static NEXT_INDEX: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sluicegate-serving-{}-{index}", process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and creates its parent directories.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.file_path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
