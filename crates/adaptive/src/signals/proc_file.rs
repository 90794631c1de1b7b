//! A `/proc` or `/sys` file that is read repeatedly.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Maximum number of bytes read from a file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file that is kept open: reading from the start makes the kernel generate it again, and saves the path
/// lookup at every tick. A file that cannot be read is reopened the next time.
#[derive(Debug)]
pub(super) struct ProcFile {
    path: PathBuf,
    file: Option<File>,
}

impl ProcFile {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// True if the file exists, readable or not.
    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// True if both have the same path.
    pub(super) fn same_path(&self, other: &Self) -> bool {
        self.path == other.path
    }

    /// Reads the file. `None` if it is missing or not UTF-8.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        self.read_up_to(MAX_FILE_BYTES, buffer)
    }

    /// Reads the first lines of a long file.
    pub(super) fn read_head<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        self.read_up_to(512, buffer)
    }

    fn read_up_to<'b>(&mut self, max_bytes: u64, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        // The open file may belong to a deleted directory: the second attempt opens it by path.
        for _ in 0..2 {
            let was_open = self.file.is_some();
            if !was_open {
                self.file = File::open(&self.path).ok();
            }
            let file = self.file.as_mut()?;
            buffer.clear();
            let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(max_bytes).read_to_end(buffer));
            if read.is_ok() {
                return std::str::from_utf8(buffer).ok();
            }
            self.file = None;
            if !was_open {
                break;
            }
        }
        None
    }
}
