//! Paths of files named in the rule file, relative to it. Their existence is checked on opening.

use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;

/// Resolves a file path; a relative one against the rule file's directory, if it is known.
pub(crate) fn file_path(item: &FieldValue<'_>) -> Option<String> {
    let path = item.text()?;
    if path.trim().is_empty() {
        item.context.report(
            DiagnosticBuilder::error(item.span(), format!("`{}` is an empty path", item.name))
                .label("empty")
                .help(format!("use a path such as {}, relative to the directory of the rule file", item.example)),
        );
        return None;
    }
    let folder = item.context.folder;
    Some(folder.map_or_else(|| path.to_owned(), |folder| folder.join(path).to_string_lossy().into_owned()))
}
