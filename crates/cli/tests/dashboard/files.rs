//! The files of the dashboard themselves.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Ways to have a text read as HTML or as a program, to style by attributes, and to ask others for anything.
const NEVER: [&str; 16] = [
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
fn no_text_is_ever_read_as_html() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../admin/assets"));
    assert!(files.len() > 20, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for never in NEVER {
            // The one place that names it is the one that refuses it.
            let refused = text.lines().filter(|line| line.contains(never) && !line.contains("srcdoc$"));
            assert_eq!(refused.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", path.display());
        }
        // Addresses elsewhere stand in comments and as the name of SVG, and are never asked for.
        for line in text.lines().filter(|line| line.contains("://")) {
            let is_name = line.contains("http://www.w3.org/2000/svg");
            assert!(is_name || line.contains("// ") || line.contains("/**"), "{}: {line}", path.display());
        }
    }
}
