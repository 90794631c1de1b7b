//! Atomic writes of the rule file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::types::ReadOnlyReason;

/// Reason for which the file cannot be written, if known in advance.
pub(super) fn read_only_reason(path: &Path) -> Option<ReadOnlyReason> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Some(ReadOnlyReason::Missing { path: path.to_owned(), error: error.to_string() }),
    };
    let read_only = fs::metadata(&real).is_ok_and(|metadata| metadata.permissions().readonly());
    read_only.then(|| ReadOnlyReason::Permissions { path: path.to_owned() })
}

/// Writes a text to the file atomically: concurrent readers, and readers after a crash, see the old or the
/// new text. A symlink stays a symlink.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let real = fs::canonicalize(path).map_err(failed)?;
    let temp_path = temp_file_path(&real);
    write_and_rename(&temp_path, &real, text)
        .inspect_err(|_| {
            // The partial file is useless; failing to remove it is no worse than the error itself.
            let _ = fs::remove_file(&temp_path);
        })
        .map_err(failed)
}

fn write_and_rename(temp_path: &Path, real: &Path, text: &str) -> io::Result<()> {
    let permissions = fs::metadata(real)?.permissions();
    let mut file = OpenOptions::new().write(true).create_new(true).open(temp_path)?;
    file.set_permissions(permissions)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(temp_path, real)?;
    // The rename is durable only after the directory is synced.
    real.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Path of a temporary file in the same directory, unique to this process.
fn temp_file_path(real: &Path) -> PathBuf {
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    real.with_file_name(format!(".{name}.{}.draft", std::process::id()))
}
