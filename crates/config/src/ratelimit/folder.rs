//! The files of a folder.
//!
//! As the reference does, folders below are searched and links to files followed, but not links to folders. Names
//! that begin with a dot are passed by, as the reference does on request: a mounted ConfigMap keeps its files
//! twice, once for use and once below `..data`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::diagnostic::Finding;
use crate::source::{self, LARGEST_FILE, ReadError};

/// The most files of a folder and all below it.
const MOST_FILES: usize = 10_000;

/// The most names looked at.
const MOST_NAMES: usize = 100_000;

/// The most bytes of all files together.
const MOST_BYTES: u64 = 4 * LARGEST_FILE;

/// How far below the folder files are looked for.
const DEEPEST: usize = 16;

/// Why a folder, or one of its files, could not be read.
#[derive(Debug, Error)]
pub(super) enum Unreadable {
    #[error("there is no such folder")]
    Missing,
    #[error("this is a link to a folder that does not exist")]
    DanglingLink,
    #[error("this is a file, not a folder")]
    File,
    #[error("no file in this folder ends in .yaml or .yml")]
    Empty,
    #[error("folders are nested deeper than {DEEPEST} levels")]
    TooDeep,
    #[error("more than {MOST_NAMES} names in this folder and below")]
    TooManyNames,
    #[error("more than {MOST_FILES} files")]
    TooManyFiles,
    #[error("the files have more than {} MiB together", MOST_BYTES >> 20)]
    TooLarge,
    #[error("{} cannot be read: {error}", folder.display())]
    Folder { folder: PathBuf, error: io::Error },
    #[error("this is a pipe or device, not a file")]
    Pipe,
    #[error(transparent)]
    Text(#[from] ReadError),
}

impl From<Unreadable> for Finding {
    fn from(error: Unreadable) -> Self {
        let remedy = match &error {
            Unreadable::Missing => "check the path",
            Unreadable::DanglingLink => "check where the link points to",
            Unreadable::File => "name the folder it is in",
            Unreadable::Empty => "check the path; for a domain without limits, a file with `domain: shop` is enough",
            Unreadable::TooDeep | Unreadable::TooManyNames => {
                "name the folder that holds the ratelimit files and nothing else"
            }
            Unreadable::TooManyFiles => "put the descriptors of a domain into one file",
            Unreadable::TooLarge => "a descriptor without a value, or with `*` in it, does the work of many",
            Unreadable::Folder { .. } => "check that this user may read it",
            Unreadable::Pipe => "put the text into a file",
            Unreadable::Text(error) => error.remedy(),
        };
        Self::whole(error.to_string()).help(remedy)
    }
}

/// A file's name, with its text or why it has none.
pub(super) type Found = (String, Result<String, Unreadable>);

/// Finds and reads the files of a folder, in the order of their names.
pub(super) fn read(folder: &Path) -> Result<Vec<Found>, Unreadable> {
    let kind = fs::metadata(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound if fs::symlink_metadata(folder).is_ok() => Unreadable::DanglingLink,
        ErrorKind::NotFound => Unreadable::Missing,
        _ => unreadable(folder)(error),
    })?;
    if !kind.is_dir() {
        return Err(Unreadable::File);
    }
    let mut search = Search::default();
    search.visit(folder, 0)?;
    if search.files.is_empty() {
        return Err(Unreadable::Empty);
    }
    let mut left = MOST_BYTES;
    let mut found = Vec::with_capacity(search.files.len());
    for path in search.files {
        let text = text(&path);
        let length = text.as_ref().map_or(0, |text| text.len() as u64);
        left = left.checked_sub(length).ok_or(Unreadable::TooLarge)?;
        found.push((path.to_string_lossy().into_owned(), text));
    }
    Ok(found)
}

/// Reads one file. Pipes and devices are left alone: they could keep a reader for ever.
fn text(path: &Path) -> Result<String, Unreadable> {
    if fs::metadata(path).is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        return Err(Unreadable::Pipe);
    }
    Ok(source::read(path)?)
}

#[derive(Default)]
struct Search {
    files: Vec<PathBuf>,
    names: usize,
}

impl Search {
    fn visit(&mut self, folder: &Path, depth: usize) -> Result<(), Unreadable> {
        if depth > DEEPEST {
            return Err(Unreadable::TooDeep);
        }
        let mut below = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
            let entry = entry.map_err(unreadable(folder))?;
            self.names += 1;
            if self.names > MOST_NAMES {
                return Err(Unreadable::TooManyNames);
            }
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            // Of a link this says that it is one, and so links to folders are not followed.
            let is_folder = entry.file_type().map_err(unreadable(folder))?.is_dir();
            if is_folder || is_yaml(&path) {
                below.push((path, is_folder));
            }
        }
        below.sort();
        for (path, is_folder) in below {
            if is_folder {
                self.visit(&path, depth + 1)?;
            } else if self.files.len() < MOST_FILES {
                self.files.push(path);
            } else {
                return Err(Unreadable::TooManyFiles);
            }
        }
        Ok(())
    }
}

fn unreadable(folder: &Path) -> impl FnOnce(io::Error) -> Unreadable + '_ {
    |error| Unreadable::Folder { folder: folder.to_owned(), error }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}
