//! Checks of the dashboard's source files.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Forbidden patterns: parsing text as HTML or code, inline styles, and requests to other origins.
const FORBIDDEN_PATTERNS: [&str; 16] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "createContextualFragment",
    "DOMParser",
    "setHTML",
    "eval(",
    "new Function",
    "srcdoc",
    "style=",
    "onclick=",
    "javascript:",
    "@import",
    "//cdn",
    "localStorage.token",
];

#[test]
fn text_is_never_parsed_as_html() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../admin/assets"));
    assert!(files.len() > 20, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for never in FORBIDDEN_PATTERNS {
            // The only file that names it is the one that rejects it.
            let refused = text.lines().filter(|line| line.contains(never) && !line.contains("srcdoc$"));
            assert_eq!(refused.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", path.display());
        }
        // External URLs occur only in comments and as the SVG namespace, and are never requested.
        for line in text.lines().filter(|line| line.contains("://")) {
            let is_name = line.contains("http://www.w3.org/2000/svg");
            assert!(is_name || line.contains("// ") || line.contains("/**"), "{}: {line}", path.display());
        }
    }
}
