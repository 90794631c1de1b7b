//! Every `yaml` block in the manual is a valid rule file. Blocks marked `yml` belong to other programs.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_yaml_block_of_the_manual_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut blocks = 0;
    for page in pages(root) {
        let (name, text) = (page.display().to_string(), fs::read_to_string(&page).unwrap());
        for file in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let loaded = sluicegate_config::parse(&name, file).unwrap_or_else(|report| panic!("{file}{report}"));
            assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
            blocks += 1;
        }
    }
    assert!(blocks >= 30, "the manual has only {blocks} rule files");
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/zh"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let entries = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|it| it == "md")).collect()
}
