//! Files that the rule file names: they are looked for beside it. Whether they are there is found out by
//! whoever opens them.

use super::item::Item;
use crate::diagnostic::Finding;

/// The path of a file; a relative one begins at the rule file's folder, if that is known.
pub(crate) fn file_path(item: &Item<'_>) -> Option<String> {
    let path = item.text()?;
    if path.trim().is_empty() {
        item.context.report(
            Finding::error(item.span(), format!("`{}` names no file", item.name))
                .label("empty")
                .help(format!("write a path such as {}; it is relative to the rule file's folder", item.example)),
        );
        return None;
    }
    let folder = item.context.folder;
    Some(folder.map_or_else(|| path.to_owned(), |folder| folder.join(path).to_string_lossy().into_owned()))
}
