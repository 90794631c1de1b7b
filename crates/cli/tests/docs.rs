//! The manual says what is so: it is whole, generated parts are in step, shown files are the files, links lead
//! somewhere, tests that are named exist, and every block is of a kind that some test covers.
//!
//! | block | covered by |
//! |---|---|
//! | `rust` | a doctest of the crate whose `lib.rs` includes the page |
//! | `yaml` | `crates/config/tests/guide.rs`, which reads it as a rule file |
//! | `yml` | somebody else's file: a part of an example, a file of envoyproxy/ratelimit, or saved and used by commands |
//! | `console` | `cli.rs`, which runs it and compares what it prints |
//! | `nginx` | a file in `examples/nginx`, compared here |
//! | `sh`, and `http`, `json`, `text` below it | one of the `TYPISTS`, which types it and compares what comes |
//! | any with `<!-- held by: test -->` above it | that test, which reads the page |
//! | any with `<!-- not run: why -->` above it | nothing, for the reason that stands there |
//!
//! `INSTA_UPDATE=always cargo test -p sluicegate-cli -p sluicegate-manual` writes the generated parts anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

#[path = "pages/page.rs"]
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use page::{Block, Note, blocks, pages, read, root};

/// What comes after this in `docs/rules.md` is generated.
const MARK: &str = "<!-- reference -->\n\n";

/// Tests that type what pages show. Each names its pages.
const TYPISTS: [&str; 3] = [
    "crates/cli/tests/pages/main.rs",
    "crates/cli/tests/packaging/install.rs",
    "examples/flash-sale/tests/sale/page.rs",
];

/// Pages that say the same in two languages.
const PAIRS: [(&str, &str); 3] =
    [("README.md", "README.zh-CN.md"), ("docs/start.md", "docs/zh/start.md"), ("docs/rules.md", "docs/zh/rules.md")];

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
fn the_summary_has_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = links(&summary).map(|link| format!("docs/{link}")).collect();
    let each: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), each.len(), "docs/SUMMARY.md has a page twice");
    let there: BTreeSet<String> =
        pages().into_iter().filter(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md").collect();
    assert_eq!(each, there, "docs/SUMMARY.md and the pages in docs/ differ");
}

/// A page can be read alone: it says what it is for before anything else.
#[test]
fn every_page_begins_with_what_it_is_for() {
    for page in pages().into_iter().filter(|page| page != "docs/SUMMARY.md") {
        let text = read(&page);
        let mut lines = text.lines().filter(|line| !line.is_empty());
        assert!(lines.next().unwrap().starts_with("# "), "{page} does not begin with its title");
        let said = lines.find(|line| !line.starts_with('[')).unwrap();
        let is_prose = !["```", "#", "|", "- ", "<", "!"].iter().any(|mark| said.starts_with(mark));
        assert!(is_prose, "{page} does not begin with a sentence, but with {said}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = read(&page);
        let folder = root().join(&page).parent().unwrap().to_owned();
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (target, place) = link.split_once('#').map_or((link, None), |(target, place)| (target, Some(place)));
            let path = folder.join(target);
            assert!(target.is_empty() || path.exists(), "{page}: {link} leads nowhere");
            let Some(place) = place else { continue };
            let there = if target.is_empty() { text.clone() } else { fs::read_to_string(&path).unwrap() };
            assert!(places(&there).any(|it| it == place), "{page}: {link} names a heading that is not there");
        }
    }
}

/// `scripts/book` knows two folders beside the manual, as pages in `docs/` name them: the book lies elsewhere, and other
/// links would lead nowhere in it.
#[test]
fn links_out_of_the_manual_are_those_that_the_book_knows() {
    assert!(read("scripts/book").contains(r#"href="\.\./(crates|examples)/"#));
    for page in pages().into_iter().filter(|page| page.starts_with("docs/")) {
        let (up, text) = (if page.starts_with("docs/zh/") { "../../" } else { "../" }, read(&page));
        for link in links(&text).filter_map(|link| link.strip_prefix(up)) {
            let is_known = up == "../" && ["crates/", "examples/"].iter().any(|folder| link.starts_with(folder));
            assert!(is_known, "{page}: {up}{link} leads nowhere in the book");
        }
    }
}

/// Where the links of a page lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The headings of a page as links name them: letters, digits and hyphens, in small letters.
fn places(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(|heading| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect()
    })
}

/// A promise without its test is no promise.
#[test]
fn every_test_that_holds_a_promise_exists() {
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

/// What a program writes to depend on the library names a folder and features that there are, and all of them are told.
#[test]
fn the_features_of_the_library_are_those_of_its_page() {
    let (page, manifest) = (read("docs/library.md"), read("crates/sluicegate/Cargo.toml"));
    let known: BTreeSet<&str> = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .take_while(|line| !line.starts_with("[dependencies]"))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .filter(|name| *name != "default")
        .collect();
    let told = page.split("\nFeatures: ").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    assert_eq!(told.split('`').skip(1).step_by(2).collect::<BTreeSet<_>>(), known);
    let shown = blocks(&page).into_iter().find(|block| block.kind == "toml").unwrap().text;
    assert!(shown.contains("/crates/sluicegate\", features = [\"tower\"]") && known.contains("tower"), "{shown}");
}

#[test]
fn every_benchmark_is_told_of() {
    let page = read("docs/benchmarks.md");
    let makefile = read("Makefile");
    for target in makefile.lines().filter_map(|line| line.split_once(": ").map(|(target, _)| target)) {
        assert!(
            !target.starts_with("bench-") || page.contains(&format!("`make {target}`")),
            "make {target} is not told of"
        );
    }
}

/// Headings of the same levels, and the same blocks. Drawings may be translated; that the rule file's reference has the
/// same fields in both is held where it is translated, in `crates/manual`.
#[test]
fn pages_in_two_languages_show_the_same() {
    for (english, chinese) in PAIRS {
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
        assert_eq!(shown(&one).len(), shown(&other).len(), "{english} and {chinese} show not as many blocks");
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
fn every_block_is_of_a_kind_that_some_test_covers() {
    let mut not_run = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let mut below_commands = false;
        for block in blocks(&read(&page)) {
            if let Some(Note::NotRun(why)) = &block.note {
                not_run += usize::from(why != "a drawing");
                below_commands &= block.kind != "sh";
                if why.len() < 4 {
                    wrong.push(format!("{page}:{}: not run, and why?", block.line));
                }
            } else if let Some(Note::HeldBy(test)) = &block.note {
                if !read(test).contains(&page) {
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
    assert!(not_run <= 7, "{not_run} blocks are not run: cover some of them");
}

fn covered(page: &str, block: &Block, below_commands: bool) -> Result<(), &'static str> {
    let name = page.rsplit('/').next().unwrap();
    let translated = PAIRS.iter().any(|(_, chinese)| *chinese == page);
    match block.kind.as_str() {
        // Read by the test of the rule files, or run by trycmd, on whatever page they stand.
        "yaml" => Ok(()),
        "console" if page.starts_with("docs/zh") && !translated => Err("nothing runs it here"),
        "console" => Ok(()),
        "rust" | "rust,no_run" => {
            let included = format!("include_str!(\"../../../{page}\")");
            let crates = ["crates/sluicegate/src/lib.rs", "crates/manual/src/lib.rs"];
            let compiled = translated || crates.iter().any(|file| read(file).contains(&included));
            if compiled { Ok(()) } else { Err("no crate's documentation includes the page") }
        }
        // Compared with the example's own code.
        "rust,ignore" if page == "docs/flash-sale.md" => Ok(()),
        "sh" => {
            let typed = translated || TYPISTS.iter().any(|test| read(test).contains(&format!("\"{page}\"")));
            if typed { Ok(()) } else { Err("no test types it") }
        }
        "nginx" => {
            let mut files = fs::read_dir(root().join("examples/nginx")).unwrap().map(|it| it.unwrap().path());
            let is_there = files.any(|file| fs::read_to_string(file).unwrap() == block.text);
            if is_there { Ok(()) } else { Err("it is no file of examples/nginx") }
        }
        "yml" | "text" if matches!(block.note, Some(Note::File(_))) => Ok(()),
        "http" | "json" | "text" if below_commands => Ok(()),
        "http" | "json" | "text" => Err("it is no answer to a command above it"),
        "yml" if block.text.starts_with("domain:") => is_good_ratelimit(name, &block.text),
        "yml" => {
            let [whole, part] = [&read("examples/envoy/envoy.yaml"), &block.text].map(|text| bare_lines(text));
            let is_part = whole.windows(part.len()).any(|lines| lines == part);
            if is_part { Ok(()) } else { Err("it is no part of examples/envoy/envoy.yaml") }
        }
        _ => Err("no test knows this kind"),
    }
}

/// A file of envoyproxy/ratelimit must be one that is read.
fn is_good_ratelimit(page: &str, text: &str) -> Result<(), &'static str> {
    let folder = std::env::temp_dir().join(format!("sluicegate-docs-{}-{page}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("shown.yaml"), text).unwrap();
    let read = sluicegate_config::ratelimit::Domains::load(&folder);
    fs::remove_dir_all(&folder).unwrap();
    read.map(drop).map_err(|_| "it is no good file of envoyproxy/ratelimit")
}

/// Lines without remarks and without what is before them.
fn bare_lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned()).collect()
}
