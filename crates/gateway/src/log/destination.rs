//! Destination of the access log: a file or standard output.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use thiserror::Error;

/// Owner writes, group reads: the log holds personal data.
const FILE_MODE: u32 = 0o640;

/// Error while opening the access log.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be opened for writing.
    #[error("cannot open the access log {file}: {source}: {}", remedy(source))]
    Open {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// There is no standard output.
    #[error("cannot write the access log to standard output: {0}: configure a file")]
    StandardOutput(#[source] io::Error),
    /// The writer thread cannot be started.
    #[error("cannot start the access log thread: {0}: raise the thread limit of this process")]
    Thread(#[source] io::Error),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "create its directory first",
        io::ErrorKind::PermissionDenied => "allow this process to write there, or configure another file",
        io::ErrorKind::IsADirectory => "it is a directory: configure a file in it",
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            "start the reader of this pipe first, or configure a file"
        }
        _ => "configure a writable file",
    }
}

/// An open log destination.
#[derive(Debug)]
pub(super) struct LogDestination {
    pub(super) file: File,
    /// Path for reopening; `None` for standard output.
    pub(super) path: Option<PathBuf>,
}

impl LogDestination {
    /// Opens the configured destination; `-` is standard output.
    pub(super) fn open(name: &str) -> Result<Self, LogError> {
        if name == "-" {
            // Bypasses the buffer of the standard library: lines are buffered already.
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(LogError::StandardOutput)?;
            return Ok(Self::from(File::from(stdout)));
        }
        let path = PathBuf::from(name);
        match open_append(&path) {
            Ok(file) => Ok(Self { file, path: Some(path) }),
            Err(source) => Err(LogError::Open { file: path, source }),
        }
    }

    /// Reopens the path; keeps the old file if that fails.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = open_append(path)?;
        }
        Ok(())
    }
}

impl From<File> for LogDestination {
    fn from(file: File) -> Self {
        Self { file, path: None }
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    // Opening a pipe blocks until it has a reader, unless O_NONBLOCK is set; writes may block again.
    let nonblocking = OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .custom_flags(nonblocking.bits().cast_signed())
        .open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - nonblocking)?;
    Ok(file)
}
