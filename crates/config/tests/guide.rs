//! What the guides show of the rule file can be used as it stands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::Path;

#[test]
fn every_file_the_guide_shows_is_a_good_one() {
    shown_in("docs/rules.md", 3);
}

#[test]
fn every_file_the_gateways_page_shows_is_a_good_one() {
    shown_in("docs/gateway.md", 4);
}

#[test]
fn every_file_the_decision_servers_pages_show_is_a_good_one() {
    shown_in("docs/server.md", 2);
    shown_in("docs/envoy.md", 2);
}

#[test]
fn every_file_the_page_about_strain_shows_is_a_good_one() {
    shown_in("docs/adaptive.md", 5);
}

#[test]
fn every_file_the_operators_page_shows_is_a_good_one() {
    shown_in("docs/operations.md", 4);
}

fn shown_in(page: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let guide = fs::read_to_string(root.join(page)).unwrap();
    let shown: Vec<&str> = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(shown.len() >= least, "{page} shows only {} files", shown.len());
    for text in shown {
        let loaded = sluicegate_config::parse(page, text).unwrap_or_else(|report| panic!("{text}{report}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
}
