//! Finds and reads the files of a folder.
//!
//! As in envoyproxy/ratelimit, subfolders are searched and links to files followed, but not links to folders.
//! Hidden names are skipped, an option there: a mounted ConfigMap contains its files twice, once for use and
//! once below `..data`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sluicegate_config::MAX_FILE_BYTES;
use sluicegate_config::document::{DiagnosticBuilder, ReadError, read_file};
use thiserror::Error;

/// Maximum number of files, including subfolders.
const MAX_FILES: usize = 10_000;

/// Maximum number of directory entries.
const MAX_NAMES: usize = 100_000;

/// Maximum total size of all files, in bytes.
const MAX_TOTAL_BYTES: u64 = 4 * MAX_FILE_BYTES;

/// Maximum depth of subfolders.
const MAX_DEPTH: usize = 16;

/// Error of reading a folder or one of its files.
#[derive(Debug, Error)]
pub(super) enum FolderError {
    #[error("folder not found")]
    Missing,
    #[error("dangling link: the folder does not exist")]
    DanglingLink,
    #[error("not a folder, but a file")]
    File,
    #[error("the folder contains no .yaml or .yml file")]
    Empty,
    #[error("folders are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("more than {MAX_NAMES} directory entries in this folder and its subfolders")]
    TooManyNames,
    #[error("more than {MAX_FILES} files")]
    TooManyFiles,
    #[error("the files exceed {} MiB in total", MAX_TOTAL_BYTES >> 20)]
    TooLarge,
    #[error("cannot read {}: {error}", folder.display())]
    Folder { folder: PathBuf, error: io::Error },
    #[error("not a regular file")]
    Pipe,
    #[error(transparent)]
    Text(#[from] ReadError),
}

impl From<FolderError> for DiagnosticBuilder {
    fn from(error: FolderError) -> Self {
        let remedy = match &error {
            FolderError::Missing => "check the path",
            FolderError::DanglingLink => "check the target of the link",
            FolderError::File => "pass the folder that contains it",
            FolderError::Empty => "check the path; a domain without limits still needs a file with `domain: shop`",
            FolderError::TooDeep | FolderError::TooManyNames => "pass a folder that contains only ratelimit files",
            FolderError::TooManyFiles => "put the descriptors of a domain into one file",
            FolderError::TooLarge => {
                "one descriptor without a value, or with `*` in its value, can replace many descriptors"
            }
            FolderError::Folder { .. } => "check the read permission of this user",
            FolderError::Pipe => "use a regular file",
            FolderError::Text(error) => error.remedy(),
        };
        Self::for_file(error.to_string()).help(remedy)
    }
}

/// A file name with its text or an error.
pub(super) type FileText = (String, Result<String, FolderError>);

/// Finds and reads the files of a folder, sorted by name.
pub(super) fn read(folder: &Path) -> Result<Vec<FileText>, FolderError> {
    let kind = fs::metadata(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound if fs::symlink_metadata(folder).is_ok() => FolderError::DanglingLink,
        ErrorKind::NotFound => FolderError::Missing,
        _ => folder_error(folder)(error),
    })?;
    if !kind.is_dir() {
        return Err(FolderError::File);
    }
    let mut search = Search::default();
    search.visit(folder, 0)?;
    if search.files.is_empty() {
        return Err(FolderError::Empty);
    }
    let mut remaining = MAX_TOTAL_BYTES;
    let mut found = Vec::with_capacity(search.files.len());
    for path in search.files {
        let text = text(&path);
        let length = text.as_ref().map_or(0, |text| text.len() as u64);
        remaining = remaining.checked_sub(length).ok_or(FolderError::TooLarge)?;
        found.push((path.to_string_lossy().into_owned(), text));
    }
    Ok(found)
}

/// Reads one file. Pipes and devices are not opened: they could block forever.
fn text(path: &Path) -> Result<String, FolderError> {
    if fs::metadata(path).is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        return Err(FolderError::Pipe);
    }
    Ok(read_file(path)?)
}

#[derive(Default)]
struct Search {
    files: Vec<PathBuf>,
    names: usize,
}

impl Search {
    fn visit(&mut self, folder: &Path, depth: usize) -> Result<(), FolderError> {
        if depth > MAX_DEPTH {
            return Err(FolderError::TooDeep);
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(folder_error(folder))? {
            let entry = entry.map_err(folder_error(folder))?;
            self.names += 1;
            if self.names > MAX_NAMES {
                return Err(FolderError::TooManyNames);
            }
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            // `file_type` does not follow links, so links to folders are not entered.
            let is_folder = entry.file_type().map_err(folder_error(folder))?.is_dir();
            if is_folder || is_yaml(&path) {
                entries.push((path, is_folder));
            }
        }
        entries.sort();
        for (path, is_folder) in entries {
            if is_folder {
                self.visit(&path, depth + 1)?;
            } else if self.files.len() < MAX_FILES {
                self.files.push(path);
            } else {
                return Err(FolderError::TooManyFiles);
            }
        }
        Ok(())
    }
}

fn folder_error(folder: &Path) -> impl FnOnce(io::Error) -> FolderError + '_ {
    |error| FolderError::Folder { folder: folder.to_owned(), error }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}
