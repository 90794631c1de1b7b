//! Where lines end up: a file, or standard output.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use thiserror::Error;

/// Owner writes, group reads: lines tell who did what.
const MODE: u32 = 0o640;

/// Why requests cannot be noted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be written to.
    #[error("the access log {file} cannot be opened: {source}: {}", remedy(source))]
    Open {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no standard output.
    #[error("the access log cannot go to standard output: {0}: name a file")]
    StandardOutput(#[source] io::Error),
    /// There is nobody to write it.
    #[error("the access log's thread cannot be started: {0}: allow this process more threads")]
    Thread(#[source] io::Error),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make its folder first",
        io::ErrorKind::PermissionDenied => "let this process write there, or name another file",
        io::ErrorKind::IsADirectory => "name a file in it",
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            "start who reads this pipe first, or name a file"
        }
        _ => "name a file that can be written to",
    }
}

/// Where lines are written to.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) file: File,
    /// Where to find it again; `None` for what has no place.
    pub(super) path: Option<PathBuf>,
}

impl Destination {
    /// Opens what the settings name; `-` is standard output.
    pub(super) fn open(name: &str) -> Result<Self, LogError> {
        if name == "-" {
            // Not by the standard library's buffer: lines are gathered already.
            let own = io::stdout().as_fd().try_clone_to_owned().map_err(LogError::StandardOutput)?;
            return Ok(Self::from(File::from(own)));
        }
        let path = PathBuf::from(name);
        match append(&path) {
            Ok(file) => Ok(Self { file, path: Some(path) }),
            Err(source) => Err(LogError::Open { file: path, source }),
        }
    }

    /// Goes on in whatever is at the same place now; in the old file if that fails.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = append(path)?;
        }
        Ok(())
    }
}

impl From<File> for Destination {
    fn from(file: File) -> Self {
        Self { file, path: None }
    }
}

fn append(path: &Path) -> io::Result<File> {
    // Opening a pipe waits until somebody reads from it, unless one says not to; writing to it may wait again.
    let at_once = OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(at_once.bits().cast_signed())
        .open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - at_once)?;
    Ok(file)
}
