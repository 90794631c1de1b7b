//! Every fixture file, and what is made of it. `bad/` is refused, `warned/` is taken with warnings,
//! `good/` is taken without errors; the snapshots show exactly what a user sees.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::Path;

use sluicegate_config::{Loaded, Report, Style, parse};

fn read(path: &Path) -> Result<Loaded, Report> {
    let name = path.file_name().unwrap().to_string_lossy();
    parse(&name, &fs::read_to_string(path).unwrap())
}

#[test]
fn bad_files_are_refused_with_place_and_remedy() {
    insta::glob!("bad/*.yaml", |path| {
        let report = read(path).unwrap_err();
        for diagnostic in report.diagnostics() {
            assert!(diagnostic.help.is_some(), "no remedy: {diagnostic}");
            assert!(!diagnostic.to_string().contains(char::is_control));
        }
        insta::assert_snapshot!(report.render(Style::Plain));
    });
}

#[test]
fn doubtful_files_are_taken_with_warnings() {
    insta::glob!("warned/*.yaml", |path| {
        let loaded = read(path).unwrap_or_else(|report| panic!("{report}"));
        assert!(!loaded.warnings.is_empty());
        insta::assert_snapshot!(loaded.warnings.render(Style::Plain));
    });
}

#[test]
fn good_files_become_settings() {
    insta::glob!("good/*.yaml", |path| {
        let loaded = read(path).unwrap_or_else(|report| panic!("{report}"));
        insta::assert_snapshot!(format!("{:#?}\n\n{}", loaded.settings, loaded.warnings));
    });
}
