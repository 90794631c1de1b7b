//! nginx configurations, and the rule files that are made of them.
//!
//! Each file of `nginx/` is imported; the snapshot shows the rule file and what is said about the rest.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fmt::Write;
use std::path::Path;

use sluicegate_config::nginx::{Imported, import};

fn shown(imported: &Imported) -> String {
    let mut text = imported.yaml.clone();
    text.push_str("---\n");
    for remark in &imported.remarks {
        writeln!(text, "{remark}").unwrap();
    }
    text
}

#[test]
fn configurations_become_rule_files() {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).unwrap();
    insta::glob!("nginx/*.conf", |path| {
        let name = Path::new("nginx").join(path.file_name().unwrap());
        let imported = import(name).unwrap_or_else(|error| panic!("{error}"));
        insta::assert_snapshot!(shown(&imported));
    });
}
