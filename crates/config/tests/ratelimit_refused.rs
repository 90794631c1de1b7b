//! Files and folders of envoyproxy/ratelimit that are refused, and what a user is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluicegate_config::ratelimit::Domains;
use sluicegate_config::{LARGEST_FILE, Report, Style};

const GOOD: &str = "domain: shop\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n";

/// A fresh folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ratelimit").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn parse(files: &[(&str, &str)]) -> Result<Domains, Report> {
    Domains::parse(&files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect::<Vec<_>>())
}

/// The only thing that is wrong.
fn refusal(loaded: Result<Domains, Report>) -> String {
    let report = loaded.unwrap_err();
    assert_eq!(report.len(), 1, "{report}");
    assert!(report.diagnostics()[0].help.is_some());
    report.diagnostics()[0].message.clone()
}

#[test]
fn bad_files_are_refused_with_place_and_remedy() {
    insta::glob!("ratelimit/bad/*.yaml", |path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let report = parse(&[(&name, &fs::read_to_string(path).unwrap())]).unwrap_err();
        for diagnostic in report.diagnostics() {
            assert!(diagnostic.help.is_some(), "no remedy: {diagnostic}");
            assert!(!diagnostic.to_string().contains(char::is_control));
        }
        insta::assert_snapshot!(report.render(Style::Plain));
    });
}

#[test]
fn the_faults_of_all_files_are_told_together() {
    let report = parse(&[
        ("a.yaml", GOOD),
        ("b.yaml", "domain: bank\ndescriptors: [{ kee: a }]\n"),
        ("c.yaml", "# a comment first\ndomain: shop\n"),
        ("d.yaml", ""),
    ]);
    insta::assert_snapshot!(report.unwrap_err().render(Style::Plain));
}

#[test]
fn many_faults_in_many_files_are_counted_and_not_all_kept() {
    let faulty = format!("domain: x\ndescriptors:\n{}", "- { nonsense: 1 }\n".repeat(6_000));
    let report = parse(&[("a.yaml", &faulty), ("b.yaml", &faulty), ("c.yaml", "domain: [")]).unwrap_err();
    assert_eq!(report.diagnostics().len(), 10_000);
    assert_eq!(report.len(), 24_002);
    assert!(report.render(Style::Plain).ends_with("and 23902 more"));
}

#[test]
fn what_is_no_folder_is_named() {
    let folder = folder("none");
    assert_eq!(refusal(Domains::load(&folder)), "no file in this folder ends in .yaml or .yml");
    assert_eq!(refusal(Domains::load(&folder.join("absent"))), "there is no such folder");
    fs::write(folder.join("a.yaml"), GOOD).unwrap();
    assert_eq!(refusal(Domains::load(&folder.join("a.yaml"))), "this is a file, not a folder");
    fs::write(folder.join("b.yaml"), b"domain: gr\xfc\xdfe").unwrap();
    assert_eq!(refusal(Domains::load(&folder)), "the file is not UTF-8: byte 10 cannot be read");
}

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_are_named() {
    use std::os::unix::fs::symlink;

    let folder = folder("dangling");
    symlink(folder.join("nowhere"), folder.join("link")).unwrap();
    assert_eq!(refusal(Domains::load(&folder.join("link"))), "this is a link to a folder that does not exist");
    symlink(folder.join("nowhere.yaml"), folder.join("b.yaml")).unwrap();
    fs::write(folder.join("a.yaml"), GOOD).unwrap();
    assert_eq!(refusal(Domains::load(&folder)), "this is a link to a file that does not exist");
}

#[cfg(unix)]
#[test]
fn what_could_keep_a_reader_for_ever_is_not_opened() {
    let folder = folder("socket");
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("a.yaml")).unwrap();
    assert_eq!(refusal(Domains::load(&folder)), "this is a pipe or device, not a file");
}

/// A ConfigMap is mounted as a hidden folder of files, a link `..data` to it, and links through that to each file.
#[cfg(unix)]
#[test]
fn a_mounted_configmap_is_read_once() {
    use std::os::unix::fs::symlink;

    let folder = folder("configmap");
    let hidden = folder.join("..2026_01_01");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("shop.yaml"), GOOD).unwrap();
    symlink("..2026_01_01", folder.join("..data")).unwrap();
    symlink("..data/shop.yaml", folder.join("shop.yaml")).unwrap();
    assert!(load(&folder).has("shop"));
    symlink(&folder, folder.join("again")).unwrap();
    assert!(load(&folder).has("shop"));
}

fn load(folder: &Path) -> Domains {
    Domains::load(folder).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn folders_below_are_read_and_other_files_are_not() {
    let folder = folder("below");
    fs::create_dir_all(folder.join("config/team")).unwrap();
    fs::create_dir_all(folder.join(".git")).unwrap();
    fs::write(folder.join("config/a.yaml"), GOOD).unwrap();
    fs::write(folder.join("config/team/b.yml"), "domain: bank\n").unwrap();
    for other in ["README.md", ".hidden.yaml", ".git/x.yaml", "config/c.yaml~"] {
        fs::write(folder.join(other), "no such thing").unwrap();
    }
    let domains = load(&folder);
    assert!(domains.has("shop") && domains.has("bank"));
    assert_eq!(domains.rules().len(), 1);

    fs::write(folder.join("config/team/c.yaml"), GOOD).unwrap();
    let report = Domains::load(&folder).unwrap_err();
    assert_eq!(report.len(), 1);
    let fault = &report.diagnostics()[0];
    assert!(fault.file.ends_with("config/team/c.yaml"), "{fault}");
    assert_eq!((fault.line, fault.column, &*fault.message), (1, 9, "the domain 'shop' has a file already"));
    assert!(fault.help.as_ref().unwrap().contains("config/a.yaml, line 1;"), "{fault}");
}

#[test]
fn folders_without_end_are_not_searched() {
    let folder = folder("deep");
    fs::create_dir_all(folder.join("a/".repeat(20))).unwrap();
    assert_eq!(refusal(Domains::load(&folder)), "folders are nested deeper than 16 levels");
}

#[test]
fn too_much_is_refused_at_once() {
    let folder = folder("large");
    fs::File::create(folder.join("a.yaml")).unwrap().set_len(100 << 20).unwrap();
    let begun = Instant::now();
    assert_eq!(refusal(Domains::load(&folder)), "the file has more than 16 MiB, the most a rule file may have");
    fs::remove_file(folder.join("a.yaml")).unwrap();
    for n in 0..5 {
        fs::File::create(folder.join(format!("{n}.yaml"))).unwrap().set_len(LARGEST_FILE).unwrap();
    }
    assert_eq!(refusal(Domains::load(&folder)), "the files have more than 64 MiB together");
    fs::remove_dir_all(&folder).unwrap();

    let long = "a".repeat(1_025);
    assert_eq!(refusal(parse(&[("a", &format!("domain: {long}"))])), "the domain's name is longer than 1024 bytes");
    for open in ["[".repeat(10_000), "{a: ".repeat(10_000), "{ descriptors: [".repeat(10_000)] {
        assert!(refusal(parse(&[("a", &open)])).starts_with("nested deeper than 64 levels"));
        assert!(refusal(parse(&[("a", &format!("domain: a\ndescriptors: {open}"))])).starts_with("nested deeper"));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

fn descriptors(count: usize) -> String {
    let mut text = "domain: many\ndescriptors:\n".to_owned();
    for n in 0..count {
        text.push_str(&format!("- {{key: k, value: v{n}, rate_limit: {{unit: day, requests_per_unit: {n}}}}}\n"));
    }
    text
}

#[test]
fn a_hundred_thousand_descriptors_are_read_and_found() {
    let begun = Instant::now();
    let domains = parse(&[("many", &descriptors(100_000))]).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(domains.rules().len(), 99_999);
    let found = domains.find("many", [("k", "v77777")]).unwrap();
    assert_eq!(found.limit.requests_per_unit, 77_777);
    assert_eq!(refusal(parse(&[("many", &descriptors(100_002))])), "more than 100000 limits");
    // One long value is not copied into the name of each limit below it.
    let below = descriptors(50_000).replace("\n- ", "\n  - ").replace("domain: many\n", "");
    let nested = format!("domain: nested\ndescriptors:\n- key: a\n  value: {}\n  {below}", "x".repeat(1 << 20));
    let domains = parse(&[("nested", &nested)]).unwrap_or_else(|report| panic!("{report}"));
    assert!(domains.rules().iter().all(|rule| rule.name.len() < 300));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
