//! The documentation says what is so: generated parts are in step, shown files are the files, and
//! tests that are named exist.
//!
//! `INSTA_UPDATE=always cargo test -p sluicegate-cli` writes the generated part anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::{Path, PathBuf};

/// What comes after this in `docs/rules.md` is generated.
const MARK: &str = "<!-- reference -->\n\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_reference_of_the_rule_file_is_in_step() {
    let page = read("docs/rules.md");
    let (guide, reference) = page.split_once(MARK.trim_end()).unwrap();
    let made = sluicegate_config::reference();
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        fs::write(root().join("docs/rules.md"), format!("{guide}{MARK}{}\n", made.trim_end())).unwrap();
        return;
    }
    assert_eq!(reference.trim(), made.trim(), "docs/rules.md is out of step");
}

#[test]
fn the_files_that_the_readmes_show_are_the_files() {
    for readme in ["README.md", "README.zh-CN.md"] {
        for file in ["first", "fleet", "gateway", "server"] {
            let file = format!("examples/rules/{file}.yaml");
            let shown = format!("```yaml\n{}```", read(&file));
            assert!(read(readme).contains(&shown), "{readme} does not show {file} as it is");
        }
    }
}

#[test]
fn the_nginx_files_that_are_shown_are_the_files() {
    for (page, file) in
        [("docs/from-nginx.md", "examples/nginx/shop.conf"), ("docs/http-api.md", "examples/nginx/auth-request.conf")]
    {
        let shown = format!("```nginx\n{}```", read(file));
        assert!(read(page).contains(&shown), "{page} does not show {file} as it is");
    }
}

/// The files that Envoy's page tells to run, with the folder they name.
#[test]
fn the_files_for_envoy_can_be_used() {
    let loaded = sluicegate_config::load(root().join("examples/envoy/rules.yaml"));
    let settings = loaded.unwrap_or_else(|report| panic!("{report}")).settings;
    let folder = settings.server.and_then(|server| server.ratelimit).unwrap();
    let domains = sluicegate_config::ratelimit::Domains::load(Path::new(&folder));
    assert!(domains.unwrap_or_else(|report| panic!("{report}")).has("shop"));
}

#[test]
fn every_example_file_can_be_used_without_a_warning() {
    for entry in fs::read_dir(root().join("examples/rules")).unwrap() {
        let path = entry.unwrap().path();
        let loaded = sluicegate_config::load(&path).unwrap_or_else(|report| panic!("{report}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
}

#[test]
fn every_link_leads_somewhere() {
    let pages = ["README.md", "README.zh-CN.md"].map(String::from).into_iter().chain(
        fs::read_dir(root().join("docs")).unwrap().map(|page| format!("docs/{}", page.unwrap().file_name().display())),
    );
    for page in pages.filter(|page| page.ends_with(".md")) {
        let text = read(&page);
        let folder = root().join(&page).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            assert!(link.starts_with("http") || folder.join(target).exists(), "{page}: {link}");
        }
    }
}

/// A promise without its test is no promise.
#[test]
fn every_test_that_holds_a_promise_exists() {
    let page = read("docs/guarantees.md");
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        for link in row.split("](../").skip(1) {
            let (file, rest) = link.split_once(')').unwrap();
            let text = read(file);
            let tests = rest.split("; [").next().unwrap();
            for test in tests.split('`').skip(1).step_by(2) {
                assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
                named += 1;
            }
        }
    }
    assert!(named > 50, "only {named} tests are named");
}
