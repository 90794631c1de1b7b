//! Refused envoyproxy/ratelimit files and directories, and their messages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sluicegate_config::{MAX_FILE_BYTES, RenderStyle, Report};
use sluicegate_import::envoy_ratelimit::Domains;

const VALID: &str = "domain: shop\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n";

/// CPU time of this thread. Unlike wall time, it does not depend on the load of the machine.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Creates an empty directory for this test.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("envoy_ratelimit").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn parse(files: &[(&str, &str)]) -> Result<Domains, Report> {
    Domains::parse(&files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect::<Vec<_>>())
}

/// Returns the only error.
fn only_error(loaded: Result<Domains, Report>) -> String {
    let report = loaded.unwrap_err();
    assert_eq!(report.len(), 1, "{report}");
    assert!(report.diagnostics()[0].help.is_some());
    report.diagnostics()[0].message.clone()
}

#[test]
fn invalid_files_are_refused_with_span_and_remedy() {
    insta::glob!("envoy_ratelimit/invalid/*.yaml", |path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let report = parse(&[(&name, &fs::read_to_string(path).unwrap())]).unwrap_err();
        for diagnostic in report.diagnostics() {
            assert!(diagnostic.help.is_some(), "no remedy: {diagnostic}");
            assert!(!diagnostic.to_string().contains(char::is_control));
        }
        insta::assert_snapshot!(report.render(RenderStyle::Plain));
    });
}

#[test]
fn errors_of_all_files_are_reported_together() {
    let report = parse(&[
        ("a.yaml", VALID),
        ("b.yaml", "domain: bank\ndescriptors: [{ kee: a }]\n"),
        ("c.yaml", "# a comment first\ndomain: shop\n"),
        ("d.yaml", ""),
    ]);
    insta::assert_snapshot!(report.unwrap_err().render(RenderStyle::Plain));
}

#[test]
fn many_errors_are_counted_and_not_all_retained() {
    let invalid = format!("domain: x\ndescriptors:\n{}", "- { nonsense: 1 }\n".repeat(6_000));
    let report = parse(&[("a.yaml", &invalid), ("b.yaml", &invalid), ("c.yaml", "domain: [")]).unwrap_err();
    assert_eq!(report.diagnostics().len(), 10_000);
    assert_eq!(report.len(), 24_002);
    assert!(report.render(RenderStyle::Plain).ends_with("and 23902 more"));
}

#[test]
fn a_path_that_is_not_a_directory_is_reported() {
    let directory = directory("none");
    assert_eq!(only_error(Domains::load(&directory)), "the directory contains no .yaml or .yml file");
    assert_eq!(only_error(Domains::load(&directory.join("absent"))), "directory not found");
    fs::write(directory.join("a.yaml"), VALID).unwrap();
    assert_eq!(only_error(Domains::load(&directory.join("a.yaml"))), "not a directory, but a file");
    fs::write(directory.join("b.yaml"), b"domain: gr\xfc\xdfe").unwrap();
    assert_eq!(only_error(Domains::load(&directory)), "the file is not valid UTF-8 at byte 10");
}

#[cfg(unix)]
#[test]
fn dangling_links_are_reported() {
    use std::os::unix::fs::symlink;

    let directory = directory("dangling");
    symlink(directory.join("nowhere"), directory.join("link")).unwrap();
    assert_eq!(only_error(Domains::load(&directory.join("link"))), "dangling link: the directory does not exist");
    symlink(directory.join("nowhere.yaml"), directory.join("b.yaml")).unwrap();
    fs::write(directory.join("a.yaml"), VALID).unwrap();
    assert_eq!(only_error(Domains::load(&directory)), "the path is a symbolic link to a file that does not exist");
}

#[cfg(unix)]
#[test]
fn pipes_are_not_opened() {
    let directory = directory("socket");
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("a.yaml")).unwrap();
    assert_eq!(only_error(Domains::load(&directory)), "not a regular file");
}

/// A ConfigMap is mounted as a hidden directory of files, a link `..data` to it, and links through that to each
/// file.
#[cfg(unix)]
#[test]
fn a_mounted_configmap_is_read_once() {
    use std::os::unix::fs::symlink;

    let directory = directory("configmap");
    let hidden = directory.join("..2026_01_01");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("shop.yaml"), VALID).unwrap();
    symlink("..2026_01_01", directory.join("..data")).unwrap();
    symlink("..data/shop.yaml", directory.join("shop.yaml")).unwrap();
    assert!(load(&directory).contains("shop"));
    symlink(&directory, directory.join("again")).unwrap();
    assert!(load(&directory).contains("shop"));
}

fn load(directory: &Path) -> Domains {
    Domains::load(directory).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn subdirectories_are_read_and_other_files_ignored() {
    let directory = directory("below");
    fs::create_dir_all(directory.join("config/team")).unwrap();
    fs::create_dir_all(directory.join(".git")).unwrap();
    fs::write(directory.join("config/a.yaml"), VALID).unwrap();
    fs::write(directory.join("config/team/b.yml"), "domain: bank\n").unwrap();
    for other in ["README.md", ".hidden.yaml", ".git/x.yaml", "config/c.yaml~"] {
        fs::write(directory.join(other), "not a ratelimit file").unwrap();
    }
    let domains = load(&directory);
    assert!(domains.contains("shop") && domains.contains("bank"));
    assert_eq!(domains.rules().len(), 1);

    fs::write(directory.join("config/team/c.yaml"), VALID).unwrap();
    let report = Domains::load(&directory).unwrap_err();
    assert_eq!(report.len(), 1);
    let diagnostic = &report.diagnostics()[0];
    assert!(diagnostic.file.ends_with("config/team/c.yaml"), "{diagnostic}");
    assert_eq!((diagnostic.line, diagnostic.column, &*diagnostic.message), (1, 9, "duplicate domain 'shop'"));
    assert!(diagnostic.help.as_ref().unwrap().contains("config/a.yaml, line 1;"), "{diagnostic}");
}

#[test]
fn directory_depth_is_limited() {
    let directory = directory("deep");
    fs::create_dir_all(directory.join("a/".repeat(20))).unwrap();
    assert_eq!(only_error(Domains::load(&directory)), "directories are nested deeper than 16 levels");
}

#[test]
fn oversized_directories_are_refused() {
    let directory = directory("large");
    fs::File::create(directory.join("a.yaml")).unwrap().set_len(100 << 20).unwrap();
    let start = cpu_time();
    assert_eq!(
        only_error(Domains::load(&directory)),
        "the file is larger than 16 MiB, the maximum size of a rule file"
    );
    fs::remove_file(directory.join("a.yaml")).unwrap();
    for n in 0..5 {
        fs::File::create(directory.join(format!("{n}.yaml"))).unwrap().set_len(MAX_FILE_BYTES).unwrap();
    }
    assert_eq!(only_error(Domains::load(&directory)), "the files exceed 64 MiB in total");
    fs::remove_dir_all(&directory).unwrap();

    let long = "a".repeat(1_025);
    assert_eq!(only_error(parse(&[("a", &format!("domain: {long}"))])), "the domain name is longer than 1024 bytes");
    for open in ["[".repeat(10_000), "{a: ".repeat(10_000), "{ descriptors: [".repeat(10_000)] {
        assert!(only_error(parse(&[("a", &open)])).starts_with("nested deeper than 64 levels"));
        assert!(only_error(parse(&[("a", &format!("domain: a\ndescriptors: {open}"))])).starts_with("nested deeper"));
    }
    let spent = cpu_time() - start;
    assert!(spent < Duration::from_secs(60), "{spent:?}");
}

fn descriptors(count: usize) -> String {
    let mut text = "domain: many\ndescriptors:\n".to_owned();
    for n in 0..count {
        text.push_str(&format!("- {{key: k, value: v{n}, rate_limit: {{unit: day, requests_per_unit: {n}}}}}\n"));
    }
    text
}

#[test]
fn a_hundred_thousand_descriptors_are_parsed_and_matched() {
    let start = cpu_time();
    let domains = parse(&[("many", &descriptors(100_000))]).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(domains.rules().len(), 99_999);
    let found = domains.find("many", [("k", "v77777")]).unwrap();
    assert_eq!(found.limit.requests_per_unit, 77_777);
    assert_eq!(only_error(parse(&[("many", &descriptors(100_002))])), "more than 100000 limits");
    // A long value is not copied into the name of each nested limit.
    let below = descriptors(50_000).replace("\n- ", "\n  - ").replace("domain: many\n", "");
    let nested = format!("domain: nested\ndescriptors:\n- key: a\n  value: {}\n  {below}", "x".repeat(1 << 20));
    let domains = parse(&[("nested", &nested)]).unwrap_or_else(|report| panic!("{report}"));
    assert!(domains.rules().iter().all(|rule| rule.name.len() < 300));
    let spent = cpu_time() - start;
    assert!(spent < Duration::from_secs(60), "{spent:?}");
}
