//! A file of the kernel that is read again and again.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// More of a file than this is not looked at.
const MOST: u64 = 1 << 20;

/// A file that is kept open: reading it from the start makes the kernel write it anew, which saves the way through
/// its folders at every tick. A file that cannot be read is opened again the next time.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: Option<File>,
}

impl Source {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Whether there is such a file, readable or not.
    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Whether it is the same file by name.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.path == other.path
    }

    /// The whole text. `None`: there is none, or it is no text.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        self.read_up_to(MOST, buffer)
    }

    /// The first line or lines, for files of which only those matter and the rest is long.
    pub(super) fn read_head<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        self.read_up_to(512, buffer)
    }

    fn read_up_to<'b>(&mut self, most: u64, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        // What was kept open may be of a folder that is gone: a second try opens it by its name.
        for _ in 0..2 {
            let kept = self.file.is_some();
            if !kept {
                self.file = File::open(&self.path).ok();
            }
            let file = self.file.as_mut()?;
            buffer.clear();
            let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(most).read_to_end(buffer));
            if read.is_ok() {
                return std::str::from_utf8(buffer).ok();
            }
            self.file = None;
            if !kept {
                break;
            }
        }
        None
    }
}
