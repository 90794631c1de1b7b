//! Invalid and oversized rule files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use sluicegate_config::{MAX_FILE_BYTES, RenderStyle, Severity, load, parse};

/// CPU time of this thread. Unlike wall time, it does not depend on the load of the machine.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Creates an empty folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn load_error(path: &std::path::Path) -> String {
    let report = load(path).unwrap_err();
    assert_eq!(report.len(), 1);
    report.diagnostics()[0].message.clone()
}

#[test]
fn a_path_that_is_not_a_file_is_reported() {
    let folder = folder("no-file");
    assert_eq!(load_error(&folder), "the path is a directory, not a rule file");
    assert_eq!(load_error(&folder.join("absent.yaml")), "the file does not exist");
    fs::write(folder.join("latin1.yaml"), b"rules: [] # gr\xfc\xdfe").unwrap();
    assert_eq!(load_error(&folder.join("latin1.yaml")), "the file is not valid UTF-8 at byte 14");
    fs::write(folder.join("empty.yaml"), "").unwrap();
    assert_eq!(load_error(&folder.join("empty.yaml")), "the file is empty");
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_reported() {
    let folder = folder("dangling");
    std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("rules.yaml")).unwrap();
    assert_eq!(load_error(&folder.join("rules.yaml")), "the path is a symbolic link to a file that does not exist");
}

#[test]
fn a_file_of_100_mb_is_not_loaded() {
    let path = folder("large").join("rules.yaml");
    fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let start = cpu_time();
    assert_eq!(load_error(&path), "the file is larger than 16 MiB, the maximum size of a rule file");
    assert!(cpu_time() - start < Duration::from_secs(2));
    let text = " ".repeat(usize::try_from(MAX_FILE_BYTES).unwrap() + 1);
    assert!(parse("text", &text).is_err());
}

#[test]
fn reply_files_are_relative_to_the_rule_file() {
    let folder = folder("reply-files");
    let path = folder.join("rules.yaml");
    fs::write(&path, "rules: [{ name: a, limits: [10/s], on_limit: { file: busy.html } }]").unwrap();
    assert_eq!(load_error(&path), "cannot use the file 'busy.html' as a body");
    fs::write(folder.join("busy.html"), "<p>busy").unwrap();
    let loaded = load(&path).unwrap();
    assert!(format!("{:?}", loaded.settings.rules[0].on_limit).contains("busy.html"));
}

#[test]
fn gateway_files_are_relative_to_the_rule_file_and_not_opened() {
    let folder = folder("gateway-files");
    let path = folder.join("rules.yaml");
    fs::write(folder.join("index.html"), "<p>hello").unwrap();
    let text = "
gateway:
  listen: { address: 127.0.0.1:443, tls: { certificate: tls/cert.pem, key: /etc/key.pem } }
  jwt: { key: jwt.pem, algorithm: ES256 }
  access_log: { file: access.log }
  upstreams: { a: { servers: 'https://a', ca: ca.pem } }
  routes: [{ path: /, upstream: a }, { path: /index.html, respond: { file: index.html } }]
";
    fs::write(&path, text).unwrap();
    let gateway = load(&path).unwrap_or_else(|report| panic!("{report}")).settings.gateway.unwrap();
    let in_folder = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let tls = gateway.listen[0].tls.clone().unwrap();
    assert_eq!((tls.certificate, tls.key), (in_folder("tls/cert.pem"), "/etc/key.pem".to_owned()));
    assert_eq!(gateway.jwt.unwrap().key, in_folder("jwt.pem"));
    assert_eq!(gateway.access_log.unwrap().file, in_folder("access.log"));
    assert_eq!(gateway.upstreams[0].ca, Some(in_folder("ca.pem")));
    assert!(format!("{:?}", gateway.routes[1].to).contains(&in_folder("index.html")));

    fs::write(&path, "gateway: { access_log: '-' }").unwrap();
    assert_eq!(load(&path).unwrap().settings.gateway.unwrap().access_log.unwrap().file, "-");
}

/// A rule may be used only by the decision server, whose callers provide other attributes.
#[test]
fn attributes_from_decision_server_callers_are_not_reported_missing() {
    let rules = "rules: [{ name: a, key: account, limits: [10/s] }]";
    let alone = parse("rules.yaml", &format!("gateway: {{}}\n{rules}")).unwrap();
    assert_eq!(alone.warnings.len(), 1);
    let both = parse("rules.yaml", &format!("gateway: {{}}\nserver: {{ http: 127.0.0.1:8082 }}\n{rules}")).unwrap();
    assert!(both.warnings.is_empty(), "{}", both.warnings);
}

#[test]
fn a_large_gateway_is_parsed_or_refused_quickly() {
    let routes: String = (0..50_000).map(|n| format!("- {{ path: /{n}, upstream: u{n} }}\n")).collect();
    let upstreams: String = (0..50_000).map(|n| format!("    u{n}: builtin\n")).collect();
    let unknown: String = (0..50_000).map(|n| format!("- {{ path: /{n}, upstream: x{n} }}\n")).collect();
    let methods: String = (0..100_000).map(|n| format!("M{n}, ")).collect();
    let listeners: String = (0..200_000).map(|n| format!("127.0.0.1:{}, ", n % 65_536)).collect();
    let long = "a".repeat(1 << 20);
    for (text, is_valid) in [
        (format!("gateway:\n  upstreams:\n{upstreams}  routes:\n{}", routes.replace("- ", "  - ")), true),
        (format!("gateway:\n  upstreams:\n{upstreams}  routes:\n{}", unknown.replace("- ", "  - ")), false),
        (
            format!(
                "gateway: {{ upstreams: {{ a: builtin }}, routes: [{{ path: /{long}, upstream: a, methods: [{methods}] }}] }}"
            ),
            true,
        ),
        (format!("gateway: {{ listen: [{listeners}] }}"), false),
    ] {
        let start = cpu_time();
        let parsed = parse("large", &text);
        assert_eq!(parsed.is_ok(), is_valid);
        let spent = cpu_time() - start;
        assert!(spent < Duration::from_secs(10), "{spent:?}");
    }
}

#[test]
fn a_million_rules_are_refused_and_ten_thousand_accepted() {
    let million = format!("rules:\n{}", "- {}\n".repeat(1_000_000));
    let report = parse("million", &million).unwrap_err();
    assert_eq!(report.len(), 1);
    assert_eq!(report.diagnostics()[0].message, "1000000 rules: the maximum is 100000");

    let many: String = (0..10_000)
        .map(|n| {
            format!(
                "- {{ name: r{n}, match: 'GET /api/{n}/**', when: \"header['x-tier'] != 'v{n}'\", key: client.ip, \
                 limits: [{}/1m, {{ token_bucket: 10/s, burst: 20 }}] }}\n",
                n + 1
            )
        })
        .collect();
    let start = cpu_time();
    let loaded = parse("many", &format!("memory: 8GiB\nrules:\n{many}")).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.settings.rules.len(), 10_000);
    // Takes 0.2 s in a release build; the bound leaves room for a busy machine.
    let spent = cpu_time() - start;
    assert!(spent < Duration::from_secs(5), "{spent:?}");
}

#[test]
fn many_errors_are_counted_and_not_all_shown() {
    let text = format!("rules:\n{}", "- { name: r, nonsense: 1 }\n".repeat(20_000));
    let start = cpu_time();
    let report = parse("invalid", &text).unwrap_err();
    let shown = report.render(RenderStyle::Plain);
    assert!(report.len() > 20_000);
    assert!(shown.ends_with(&format!("and {} more", report.len() - 100)), "{}", &shown[shown.len() - 100..]);
    let spent = cpu_time() - start;
    assert!(spent < Duration::from_secs(10), "{spent:?}");
}

#[test]
fn a_file_full_of_errors_is_refused_quickly() {
    let duplicate = "a: 1\n".repeat(300_000);
    let unknown: String = (0..300_000).map(|n| format!("f{n}: 1\n")).collect();
    for text in [duplicate, unknown] {
        let start = cpu_time();
        let report = parse("invalid", &text).unwrap_err();
        assert!(report.diagnostics().len() <= 10_000);
        let spent = cpu_time() - start;
        assert!(spent < Duration::from_secs(10), "{spent:?}");
    }
}

#[test]
fn passwords_are_masked() {
    let text = "gateway: { upstreams: { a: 'http://u:hunter2@h' } }\nstore: redi://u:hunter2@h\n";
    let report = parse("secret", text).unwrap_err();
    assert_eq!(report.len(), 2);
    let shown: String = report.diagnostics().iter().map(ToString::to_string).collect();
    assert!(!format!("{shown}{report}").contains("hunter2"), "{report}");
}

#[test]
fn errors_on_very_long_lines_omit_the_line() {
    let text = format!("rules: [{}{{ name: 'a b', limits: [1/s] }}]", "{ name: a, limits: [1/s] }, ".repeat(50_000));
    let report = parse("wide", &text).unwrap_err();
    let shown = report.render(RenderStyle::Plain);
    assert!(shown.contains("--> wide:1:"), "{}", &shown[..200]);
    assert!(shown.len() < 100_000);
}

#[test]
fn colours_do_not_change_the_text() {
    let report = parse("rules.yaml", "rulez: []").unwrap_err();
    let coloured = report.render(RenderStyle::Coloured);
    assert!(coloured.contains("\u{1b}["));
    assert!(!report.render(RenderStyle::Plain).contains('\u{1b}'));
    assert_eq!(report.diagnostics()[0].severity, Severity::Error);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,200}") {
        if let Err(report) = parse("any", &text) {
            prop_assert!(!report.is_empty());
            let _ = report.render(RenderStyle::Coloured);
        }
    }

    #[test]
    fn any_yaml_like_text_is_parsed_or_refused(text in "[-a-z0-9:{}\\[\\],&*!|>'\"%@`#? \t\r\n\u{0}\u{e9}]{0,200}") {
        if let Err(report) = parse("any", &text) {
            prop_assert!(!report.is_empty());
            let _ = report.render(RenderStyle::Plain);
        }
    }

    /// A valid file with a part removed, duplicated or replaced.
    #[test]
    fn damaged_files_are_parsed_or_refused(
        good in prop::sample::select(vec![
            include_str!("good/design-example.yaml"),
            include_str!("good/gateway.yaml"),
            include_str!("good/actual-costs.yaml"),
        ]),
        start in 0usize..2500,
        len in 0usize..40,
        piece in "[-a-z0-9:{}\\[\\], \n/'\"]{0,12}",
    ) {
        let boundary = |mut at: usize| { while !good.is_char_boundary(at) { at -= 1; } at };
        let from = boundary(start.min(good.len()));
        let to = boundary((start + len).min(good.len())).max(from);
        let damaged = format!("{}{piece}{}", &good[..from], &good[to..]);
        match parse("damaged", &damaged) {
            Ok(loaded) => drop(loaded.warnings.render(RenderStyle::Plain)),
            Err(report) => prop_assert!(!report.render(RenderStyle::Plain).is_empty()),
        }
    }
}

/// The first version that a process publishes to the cluster must have the meaning of its file.
#[test]
fn shareable_text_is_extracted_verbatim() {
    let shared = |text: &str| {
        let settings = sluicegate_config::parse("rules.yaml", text).unwrap().settings;
        sluicegate_config::shareable_text(text, &settings)
    };
    assert_eq!(shared("memory: 1MiB\n").as_deref(), Some("rules: []\n"));
    assert_eq!(
        shared("lists: { deny: [\"method == 'PUT'\"] }\nmemory: 1MiB\nrules:\n- name: a\n  limits: [1/s]\n").as_deref(),
        Some("lists: { deny: [\"method == 'PUT'\"] }\nrules:\n- name: a\n  limits: [1/s]\n")
    );
    assert_eq!(
        shared("{ memory: 1MiB, rules: [{ name: a, limits: [1/s] }], headers: x }").as_deref(),
        Some("rules: [{ name: a, limits: [1/s] }]\n")
    );
    assert_eq!(shared("memory: &m 1MiB\nrules: [{ name: a, limits: [ { bandwidth: 1MiB/s, burst: *m } ] }]\n"), None);
}
