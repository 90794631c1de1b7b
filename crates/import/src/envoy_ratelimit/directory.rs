//! Finds and reads the files of a directory.
//!
//! As in envoyproxy/ratelimit, subdirectories are searched and links to files followed, but not links to directories.
//! Hidden names are skipped, an option there: a mounted ConfigMap contains its files twice, once for use and
//! once below `..data`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sluicegate_config::MAX_FILE_BYTES;
use sluicegate_config::document::{DiagnosticBuilder, ReadError, read_file};
use thiserror::Error;

/// Maximum number of files, including subdirectories.
const MAX_FILES: usize = 10_000;

/// Maximum number of directory entries.
const MAX_NAMES: usize = 100_000;

/// Maximum total size of all files, in bytes.
const MAX_TOTAL_BYTES: u64 = 4 * MAX_FILE_BYTES;

/// Maximum depth of subdirectories.
const MAX_DEPTH: usize = 16;

/// Error of reading a directory or one of its files.
#[derive(Debug, Error)]
pub(super) enum DirectoryError {
    #[error("directory not found")]
    Missing,
    #[error("dangling link: the directory does not exist")]
    DanglingLink,
    #[error("not a directory, but a file")]
    File,
    #[error("the directory contains no .yaml or .yml file")]
    Empty,
    #[error("directories are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("more than {MAX_NAMES} directory entries in this directory and its subdirectories")]
    TooManyNames,
    #[error("more than {MAX_FILES} files")]
    TooManyFiles,
    #[error("the files exceed {} MiB in total", MAX_TOTAL_BYTES >> 20)]
    TooLarge,
    #[error("cannot read {}: {error}", directory.display())]
    Directory { directory: PathBuf, error: io::Error },
    #[error("not a regular file")]
    Pipe,
    #[error(transparent)]
    Text(#[from] ReadError),
}

impl From<DirectoryError> for DiagnosticBuilder {
    fn from(error: DirectoryError) -> Self {
        let remedy = match &error {
            DirectoryError::Missing => "check the path",
            DirectoryError::DanglingLink => "check the target of the link",
            DirectoryError::File => "pass the directory that contains it",
            DirectoryError::Empty => "check the path; a domain without limits still needs a file with `domain: shop`",
            DirectoryError::TooDeep | DirectoryError::TooManyNames => {
                "pass a directory that contains only ratelimit files"
            }
            DirectoryError::TooManyFiles => "put the descriptors of a domain into one file",
            DirectoryError::TooLarge => {
                "one descriptor without a value, or with `*` in its value, can replace many descriptors"
            }
            DirectoryError::Directory { .. } => "check the read permission of this user",
            DirectoryError::Pipe => "use a regular file",
            DirectoryError::Text(error) => error.remedy(),
        };
        Self::for_file(error.to_string()).help(remedy)
    }
}

/// A file name with its text or an error.
pub(super) type FileText = (String, Result<String, DirectoryError>);

/// Finds and reads the files of a directory, sorted by name.
pub(super) fn read(directory: &Path) -> Result<Vec<FileText>, DirectoryError> {
    let kind = fs::metadata(directory).map_err(|error| match error.kind() {
        ErrorKind::NotFound if fs::symlink_metadata(directory).is_ok() => DirectoryError::DanglingLink,
        ErrorKind::NotFound => DirectoryError::Missing,
        _ => directory_error(directory)(error),
    })?;
    if !kind.is_dir() {
        return Err(DirectoryError::File);
    }
    let mut search = Search::default();
    search.visit(directory, 0)?;
    if search.files.is_empty() {
        return Err(DirectoryError::Empty);
    }
    let mut remaining = MAX_TOTAL_BYTES;
    let mut found = Vec::with_capacity(search.files.len());
    for path in search.files {
        let text = text(&path);
        let length = text.as_ref().map_or(0, |text| text.len() as u64);
        remaining = remaining.checked_sub(length).ok_or(DirectoryError::TooLarge)?;
        found.push((path.to_string_lossy().into_owned(), text));
    }
    Ok(found)
}

/// Reads one file. Pipes and devices are not opened: they could block forever.
fn text(path: &Path) -> Result<String, DirectoryError> {
    if fs::metadata(path).is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        return Err(DirectoryError::Pipe);
    }
    Ok(read_file(path)?)
}

#[derive(Default)]
struct Search {
    files: Vec<PathBuf>,
    names: usize,
}

impl Search {
    fn visit(&mut self, directory: &Path, depth: usize) -> Result<(), DirectoryError> {
        if depth > MAX_DEPTH {
            return Err(DirectoryError::TooDeep);
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(directory_error(directory))? {
            let entry = entry.map_err(directory_error(directory))?;
            self.names += 1;
            if self.names > MAX_NAMES {
                return Err(DirectoryError::TooManyNames);
            }
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            // `file_type` does not follow links, so links to directories are not entered.
            let is_directory = entry.file_type().map_err(directory_error(directory))?.is_dir();
            if is_directory || is_yaml(&path) {
                entries.push((path, is_directory));
            }
        }
        entries.sort();
        for (path, is_directory) in entries {
            if is_directory {
                self.visit(&path, depth + 1)?;
            } else if self.files.len() < MAX_FILES {
                self.files.push(path);
            } else {
                return Err(DirectoryError::TooManyFiles);
            }
        }
        Ok(())
    }
}

fn directory_error(directory: &Path) -> impl FnOnce(io::Error) -> DirectoryError + '_ {
    |error| DirectoryError::Directory { directory: directory.to_owned(), error }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}
