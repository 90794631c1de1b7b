//! Documentation tests: pages are complete, generated parts are up to date, shown files match, links resolve,
//! cited tests exist, and every code block is covered by a test.
//!
//! | block | covered by |
//! |---|---|
//! | `rust` | a doctest of the crate whose `lib.rs` includes the page |
//! | `yaml` | `crates/config/tests/guide.rs`, which parses it as a rule file |
//! | `yml` | another program's file: part of an example, an envoyproxy/ratelimit file, or saved and used by commands |
//! | `console` | `cli.rs`, which runs it and compares the output |
//! | `nginx` | a file in `examples/nginx`, compared here |
//! | `sh`, and `http`, `json`, `text` below it | one of the `SESSION_TESTS`, which runs it and compares the output |
//! | any with `<!-- tested by: test -->` above it | that test, which reads the page |
//! | any with `<!-- not run: why -->` above it | nothing, for the stated reason |
//!
//! `INSTA_UPDATE=always cargo test -p sluicegate-cli -p xtask` updates the generated parts.

use crate::pages::page;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use page::{Block, BlockNote, blocks, pages, read, root};

/// Everything after this mark in `docs/rule-reference.md` is generated.
const REFERENCE_MARK: &str = "<!-- reference -->\n\n";

/// Tests that run the commands of pages. Each names its pages.
const SESSION_TESTS: [&str; 3] = [
    "crates/cli/tests/pages/mod.rs",
    "crates/cli/tests/packaging/install.rs",
    "examples/flash-sale/tests/sale/page.rs",
];

/// Pages with a translation.
const TRANSLATED_PAGES: [(&str, &str); 8] = [
    ("README.md", "README.zh-CN.md"),
    ("docs/start.md", "docs/zh/start.md"),
    ("docs/rules.md", "docs/zh/rules.md"),
    ("docs/gateway.md", "docs/zh/gateway.md"),
    ("docs/cluster.md", "docs/zh/cluster.md"),
    ("docs/adaptive.md", "docs/zh/adaptive.md"),
    ("docs/operations.md", "docs/zh/operations.md"),
    ("docs/flash-sale.md", "docs/zh/flash-sale.md"),
];

#[test]
fn rule_file_reference_is_up_to_date() {
    let page = read("docs/rule-reference.md");
    let (introduction, reference) = page.split_once(REFERENCE_MARK.trim_end()).unwrap();
    let generated = sluicegate_config::reference();
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        let updated = format!("{introduction}{REFERENCE_MARK}{}\n", generated.trim_end());
        fs::write(root().join("docs/rule-reference.md"), updated).unwrap();
        return;
    }
    assert_eq!(reference.trim(), generated.trim(), "docs/rule-reference.md is out of date");
}

#[test]
fn the_rule_shown_in_the_readme_is_current() {
    let shown = format!("```yaml\n{}```", read("examples/rules/first.yaml"));
    assert!(read("README.md").contains(&shown), "README.md does not show examples/rules/first.yaml as it is");
}

/// Complete example files are linked from the guide of their part.
#[test]
fn guides_link_to_their_example_files() {
    for (page, file) in [("cluster", "cluster"), ("gateway", "gateway"), ("server", "server"), ("rules", "full")] {
        let link = format!("](../examples/rules/{file}.yaml)");
        assert!(read(&format!("docs/{page}.md")).contains(&link), "docs/{page}.md has no link to {file}.yaml");
    }
}

/// ARCHITECTURE.md leads contributors to files: every path that it names exists.
#[test]
fn paths_in_the_architecture_page_exist() {
    let page = read("ARCHITECTURE.md");
    let mut named = 0;
    for path in page.split('`').skip(1).step_by(2).filter(|it| it.contains("/src/")) {
        let path = path.trim_end_matches('/').trim_end_matches("*.lua");
        if path.contains(['{', 'N']) {
            continue;
        }
        let exists = ["crates", ""].iter().any(|folder| root().join(folder).join(path).exists());
        assert!(exists, "ARCHITECTURE.md: {path} does not exist");
        named += 1;
    }
    assert!(named > 40, "only {named} paths are named");
}

/// The files of the Envoy page, with the directory that they name.
#[test]
fn envoy_example_files_are_valid() {
    let loaded = sluicegate_config::load(root().join("examples/envoy/rules.yaml"));
    let settings = loaded.unwrap_or_else(|report| panic!("{report}")).settings;
    let folder = settings.server.and_then(|server| server.ratelimit_dir).unwrap();
    let domains = sluicegate_import::envoy_ratelimit::Domains::load(Path::new(&folder));
    assert!(domains.unwrap_or_else(|report| panic!("{report}")).contains("shop"));
}

#[test]
fn example_files_have_no_warnings() {
    for entry in fs::read_dir(root().join("examples/rules")).unwrap() {
        let path = entry.unwrap().path();
        let loaded = sluicegate_config::load(&path).unwrap_or_else(|report| panic!("{report}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
}

#[test]
fn summary_lists_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = links(&summary).map(|link| format!("docs/{link}")).collect();
    let each: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), each.len(), "docs/SUMMARY.md lists a page twice");
    let there: BTreeSet<String> =
        pages().into_iter().filter(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md").collect();
    assert_eq!(each, there, "docs/SUMMARY.md and the pages in docs/ differ");
}

/// A page can be read alone: it begins with its purpose.
#[test]
fn every_page_begins_with_its_purpose() {
    for page in pages().into_iter().filter(|page| page != "docs/SUMMARY.md") {
        let text = read(&page);
        let mut lines = text.lines().filter(|line| !line.is_empty());
        assert!(lines.next().unwrap().starts_with("# "), "{page} does not start with its title");
        let opening = lines.find(|line| !line.starts_with('[')).unwrap();
        let is_prose = !["```", "#", "|", "- ", "<", "!"].iter().any(|mark| opening.starts_with(mark));
        assert!(is_prose, "{page} does not start with a sentence but with {opening}");
    }
}

#[test]
fn every_link_resolves() {
    for page in pages() {
        let text = read(&page);
        let folder = root().join(&page).parent().unwrap().to_owned();
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (target, place) = link.split_once('#').map_or((link, None), |(target, place)| (target, Some(place)));
            let path = folder.join(target);
            assert!(target.is_empty() || path.exists(), "{page}: broken link {link}");
            let Some(place) = place else { continue };
            let there = if target.is_empty() { text.clone() } else { fs::read_to_string(&path).unwrap() };
            assert!(anchors(&there).any(|it| it == place), "{page}: {link} names a missing heading");
        }
    }
}

/// `scripts/book` rewrites links to two directories next to `docs/`; other links would be broken in the book.
#[test]
fn links_out_of_docs_are_known_to_the_book() {
    assert!(read("scripts/book").contains(r#"href="\.\./(crates|examples|xtask)/"#));
    for page in pages().into_iter().filter(|page| page.starts_with("docs/")) {
        let (up, text) = (if page.starts_with("docs/zh/") { "../../" } else { "../" }, read(&page));
        for link in links(&text).filter_map(|link| link.strip_prefix(up)) {
            let is_known =
                up == "../" && ["crates/", "examples/", "xtask/"].iter().any(|folder| link.starts_with(folder));
            assert!(is_known, "{page}: {up}{link} is broken in the book");
        }
    }
}

/// Link targets of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Anchors of a page's headings: lower-case letters, digits and hyphens.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(|heading| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect()
    })
}

/// Every guarantee cites an existing test.
#[test]
fn every_cited_test_exists() {
    let mut named = 0;
    for page in ["docs/guarantees.md", "docs/cluster.md", "docs/security.md"] {
        for row in read(page).lines().filter(|line| line.starts_with("| ")) {
            for link in row.split("](../").skip(1) {
                let (file, rest) = link.split_once(')').unwrap();
                let text = read(file);
                let tests = rest.split("; [").next().unwrap();
                for test in tests.split('`').skip(1).step_by(2) {
                    assert!(text.contains(&format!("fn {test}(")), "{page}: {file} has no test {test}");
                    named += 1;
                }
            }
        }
    }
    assert!(named > 100, "only {named} tests are named");
}

/// The documented dependency names an existing path and features, and all features are documented.
#[test]
fn library_features_match_the_documentation() {
    let (page, manifest) = (read("docs/library.md"), read("crates/sluicegate/Cargo.toml"));
    let known: BTreeSet<&str> = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .take_while(|line| !line.starts_with("[dependencies]"))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .filter(|name| *name != "default")
        .collect();
    let listed = page.split("\nFeatures: ").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    assert_eq!(listed.split('`').skip(1).step_by(2).collect::<BTreeSet<_>>(), known);
    let shown = blocks(&page).into_iter().find(|block| block.kind == "toml").unwrap().text;
    assert!(shown.contains("/crates/sluicegate\", features = [\"tower\"]") && known.contains("tower"), "{shown}");
}

#[test]
fn every_benchmark_is_documented() {
    let page = read("docs/benchmarks.md");
    let makefile = read("Makefile");
    for target in makefile.lines().filter_map(|line| line.split_once(": ").map(|(target, _)| target)) {
        assert!(
            !target.starts_with("bench-") || page.contains(&format!("`make {target}`")),
            "make {target} is not documented"
        );
    }
}

/// Same heading levels and same code blocks. Drawings may be translated; `xtask` checks that the rule
/// reference has the same fields in both languages.
#[test]
fn translated_pages_have_the_same_blocks() {
    for (english, chinese) in TRANSLATED_PAGES {
        let [one, other] = [english, chinese].map(read);
        let levels = |text: &str| -> Vec<usize> {
            let lines = without_blocks(text);
            lines.iter().filter(|line| line.starts_with('#')).map(|line| line.find(' ').unwrap()).collect()
        };
        assert_eq!(levels(&one), levels(&other), "headings of {english} and {chinese} differ");
        let shown = |text: &str| -> Vec<(String, String)> {
            let is_drawing = |block: &Block| block.kind == "text" && english.starts_with("README");
            blocks(text).into_iter().filter(|block| !is_drawing(block)).map(|it| (it.kind, it.text)).collect()
        };
        for (one, other) in shown(&one).into_iter().zip(shown(&other)) {
            assert_eq!(one, other, "blocks of {english} and {chinese} differ");
        }
        assert_eq!(shown(&one).len(), shown(&other).len(), "{english} and {chinese} have different numbers of blocks");
    }
}

fn without_blocks(text: &str) -> Vec<&str> {
    let mut inside = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    });
    outside.collect()
}

#[test]
fn every_code_block_is_covered_by_a_test() {
    let mut not_run = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let mut below_commands = false;
        for block in blocks(&read(&page)) {
            if let Some(BlockNote::NotRun(why)) = &block.note {
                not_run += usize::from(why != "a drawing");
                below_commands &= block.kind != "sh";
                if why.len() < 4 {
                    wrong.push(format!("{page}:{}: not run without a reason", block.line));
                }
            } else if let Some(BlockNote::TestedBy(test)) = &block.note {
                // A translated page has the blocks of its English page.
                let english =
                    TRANSLATED_PAGES.iter().find(|(_, chinese)| *chinese == page).map(|(english, _)| *english);
                if !read(test).contains(english.unwrap_or(&page)) {
                    wrong.push(format!("{page}:{}: {test} does not read this page", block.line));
                }
            } else {
                below_commands |= block.kind == "sh";
                if let Err(fault) = covered(&page, &block, below_commands) {
                    wrong.push(format!("{page}:{}: `{}`: {fault}", block.line, block.kind));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(not_run <= 7, "{not_run} blocks are not run; cover some of them");
}

fn covered(page: &str, block: &Block, below_commands: bool) -> Result<(), &'static str> {
    let name = page.rsplit('/').next().unwrap();
    let translated = TRANSLATED_PAGES.iter().any(|(_, chinese)| *chinese == page);
    match block.kind.as_str() {
        // Covered by the rule file test or by trycmd, on any page.
        "yaml" => Ok(()),
        "console" if page.starts_with("docs/zh") && !translated => Err("no test runs it"),
        "console" => Ok(()),
        "rust" | "rust,no_run" => {
            let included = format!("/{page}\")]");
            let crates = ["crates/sluicegate/src/lib.rs", "xtask/src/lib.rs"];
            let compiled = translated || crates.iter().any(|file| read(file).contains(&included));
            if compiled { Ok(()) } else { Err("no crate's documentation includes the page") }
        }
        // Compared with the example's own code.
        "rust,ignore" if page.ends_with("/flash-sale.md") => Ok(()),
        "sh" => {
            let run = translated || SESSION_TESTS.iter().any(|test| read(test).contains(&format!("\"{page}\"")));
            if run { Ok(()) } else { Err("no test runs it") }
        }
        "nginx" => {
            let mut files = fs::read_dir(root().join("examples/nginx")).unwrap().map(|it| it.unwrap().path());
            let is_there = files.any(|file| fs::read_to_string(file).unwrap() == block.text);
            if is_there { Ok(()) } else { Err("not a file of examples/nginx") }
        }
        "yml" | "text" if matches!(block.note, Some(BlockNote::File(_))) => Ok(()),
        "http" | "json" | "text" if below_commands => Ok(()),
        "http" | "json" | "text" => Err("no command above it prints this"),
        "yml" if block.text.starts_with("domain:") => is_good_ratelimit(name, &block.text),
        "yml" => {
            let [whole, part] = [&read("examples/envoy/envoy.yaml"), &block.text].map(|text| bare_lines(text));
            let is_part = whole.windows(part.len()).any(|lines| lines == part);
            if is_part { Ok(()) } else { Err("not part of examples/envoy/envoy.yaml") }
        }
        _ => Err("unknown kind of block"),
    }
}

/// An envoyproxy/ratelimit file must be valid.
fn is_good_ratelimit(page: &str, text: &str) -> Result<(), &'static str> {
    let folder = std::env::temp_dir().join(format!("sluicegate-docs-{}-{page}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("shown.yaml"), text).unwrap();
    let read = sluicegate_import::envoy_ratelimit::Domains::load(&folder);
    fs::remove_dir_all(&folder).unwrap();
    read.map(drop).map_err(|_| "not a valid envoyproxy/ratelimit file")
}

/// Lines without comments and indentation.
fn bare_lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned()).collect()
}
