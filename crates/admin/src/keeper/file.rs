//! The rule file, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why the file cannot be written, as far as that is known before anybody tries.
pub(super) fn why_not_writable(path: &Path) -> Option<String> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Some(format!("{} cannot be found: {error}", path.display())),
    };
    let read_only = fs::metadata(&real).is_ok_and(|about| about.permissions().readonly());
    read_only.then(|| format!("{} is read-only: change it where it comes from", path.display()))
}

/// Writes a text to the file. Whoever reads it meanwhile, and whoever finds it after a crash, sees the old text or
/// the new one. A link goes on leading to where it leads.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    let real = fs::canonicalize(path).map_err(failed)?;
    let beside = draft(&real);
    written(&beside, &real, text)
        .inspect_err(|_| {
            // What was begun is of no use to anybody; that it stays is no worse than the fault itself.
            let _ = fs::remove_file(&beside);
        })
        .map_err(failed)
}

fn written(beside: &Path, real: &Path, text: &str) -> io::Result<()> {
    let rights = fs::metadata(real)?.permissions();
    let mut file = OpenOptions::new().write(true).create_new(true).open(beside)?;
    file.set_permissions(rights)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, real)?;
    // The new name is kept only if the folder is.
    real.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// A name beside the file that nobody else takes.
fn draft(real: &Path) -> PathBuf {
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    real.with_file_name(format!(".{name}.{}.draft", std::process::id()))
}
