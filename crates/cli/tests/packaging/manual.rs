//! Manual pages: all commands have one, and each is complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{commands, sluicegate, stdout_of};

/// Directory for manual pages, removed on drop.
struct PageDir(PathBuf);

impl PageDir {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sluicegate-manual-{name}-{}", std::process::id())))
    }
}

impl Drop for PageDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = PageDir::new("pages");
    let below = folder.0.join("man1");
    assert_eq!(stdout_of(&["man", below.to_str().unwrap()]), "");
    let pages: BTreeSet<String> =
        fs::read_dir(&below).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    let mut expected: BTreeSet<String> = commands().iter().map(|name| format!("sluicegate-{name}.1")).collect();
    expected.extend(["sluicegate.1", "sluicegate-import-nginx.1"].map(str::to_owned));
    assert_eq!(pages, expected);

    for page in &pages {
        let text = fs::read_to_string(below.join(page)).unwrap();
        let title = page.trim_end_matches(".1").to_uppercase();
        assert!(text.starts_with(&format!(".TH {title} 1 \"\" \"sluicegate ")), "{page}: {text}");
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\""] {
            assert!(text.contains(&format!("\n.SH {heading}\n")), "{page} has no {heading}: {text}");
        }
        assert_eq!(text.contains("\n.SH SIGNALS\n"), page == "sluicegate-run.1", "{page}");
        assert_eq!(text.contains("\n.SH \"SEE ALSO\"\n"), page != "sluicegate.1", "{page}");
    }
    // Existing pages of an older version are overwritten.
    assert_eq!(stdout_of(&["man", below.to_str().unwrap()]), "");
}

#[test]
fn without_a_directory_the_main_page_is_printed() {
    let page = stdout_of(&["man"]);
    for command in commands() {
        assert!(page.contains(&format!("sluicegate\\-{command}(1)")), "{command}: {page}");
    }
}

#[test]
fn an_invalid_directory_is_named() {
    let folder = PageDir::new("file");
    fs::write(&folder.0, "").unwrap();
    let output = sluicegate(&["man", folder.0.join("man1").to_str().unwrap()]);
    drop(fs::remove_file(&folder.0));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write to"), "{error}");
}
