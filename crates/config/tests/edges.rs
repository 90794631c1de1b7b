//! Files that are no rule files, and rule files that are too much.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sluicegate_config::{LARGEST_FILE, Severity, Style, load, parse};

/// A fresh folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn refusal(path: &std::path::Path) -> String {
    let report = load(path).unwrap_err();
    assert_eq!(report.len(), 1);
    report.diagnostics()[0].message.clone()
}

#[test]
fn what_is_no_file_is_named() {
    let folder = folder("no-file");
    assert_eq!(refusal(&folder), "this is a directory, not a rule file");
    assert_eq!(refusal(&folder.join("absent.yaml")), "there is no such file");
    fs::write(folder.join("latin1.yaml"), b"rules: [] # gr\xfc\xdfe").unwrap();
    assert_eq!(refusal(&folder.join("latin1.yaml")), "the file is not UTF-8: byte 14 cannot be read");
    fs::write(folder.join("empty.yaml"), "").unwrap();
    assert_eq!(refusal(&folder.join("empty.yaml")), "the file is empty");
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_named() {
    let folder = folder("dangling");
    std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("rules.yaml")).unwrap();
    assert_eq!(refusal(&folder.join("rules.yaml")), "this is a link to a file that does not exist");
}

#[test]
fn a_hundred_megabytes_are_not_loaded() {
    let path = folder("large").join("rules.yaml");
    fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let begun = Instant::now();
    assert_eq!(refusal(&path), "the file has more than 16 MiB, the most a rule file may have");
    assert!(begun.elapsed() < Duration::from_secs(2));
    let text = " ".repeat(usize::try_from(LARGEST_FILE).unwrap() + 1);
    assert!(parse("text", &text).is_err());
}

#[test]
fn files_to_answer_with_are_looked_for_beside_the_rule_file() {
    let folder = folder("answers");
    let path = folder.join("rules.yaml");
    fs::write(&path, "rules: [{ name: a, limits: [10/s], on_limit: { file: busy.html } }]").unwrap();
    assert_eq!(refusal(&path), "'busy.html' cannot be answered with");
    fs::write(folder.join("busy.html"), "<p>busy").unwrap();
    let loaded = load(&path).unwrap();
    assert!(format!("{:?}", loaded.settings.rules[0].on_limit).contains("busy.html"));
}

#[test]
fn files_of_the_gateway_are_named_beside_the_rule_file_and_not_looked_for() {
    let folder = folder("gateway-files");
    let path = folder.join("rules.yaml");
    fs::write(folder.join("index.html"), "<p>hello").unwrap();
    let text = "
gateway:
  listen: { address: 127.0.0.1:443, tls: { certificate: tls/cert.pem, key: /etc/key.pem } }
  jwt: { key: jwt.pem, algorithm: ES256 }
  access_log: { file: access.log }
  upstreams: { a: { servers: 'https://a', ca: ca.pem } }
  routes: [{ path: /, upstream: a }, { path: /index.html, answer: { file: index.html } }]
";
    fs::write(&path, text).unwrap();
    let gateway = load(&path).unwrap_or_else(|report| panic!("{report}")).settings.gateway.unwrap();
    let beside = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let tls = gateway.listen[0].tls.clone().unwrap();
    assert_eq!((tls.certificate, tls.key), (beside("tls/cert.pem"), "/etc/key.pem".to_owned()));
    assert_eq!(gateway.jwt.unwrap().key, beside("jwt.pem"));
    assert_eq!(gateway.access_log.unwrap().file, beside("access.log"));
    assert_eq!(gateway.upstreams[0].ca, Some(beside("ca.pem")));
    assert!(format!("{:?}", gateway.routes[1].to).contains(&beside("index.html")));

    fs::write(&path, "gateway: { access_log: '-' }").unwrap();
    assert_eq!(load(&path).unwrap().settings.gateway.unwrap().access_log.unwrap().file, "-");
}

/// A rule of the gateway may be for requests that only the decision server is asked about.
#[test]
fn attributes_that_callers_of_the_server_may_have_are_not_missed() {
    let rules = "rules: [{ name: a, key: account, limits: [10/s] }]";
    let alone = parse("rules.yaml", &format!("gateway: {{}}\n{rules}")).unwrap();
    assert_eq!(alone.warnings.len(), 1);
    let both = parse("rules.yaml", &format!("gateway: {{}}\nserver: {{ http: 127.0.0.1:8082 }}\n{rules}")).unwrap();
    assert!(both.warnings.is_empty(), "{}", both.warnings);
}

#[test]
fn a_vast_gateway_is_read_or_refused_quickly() {
    let routes: String = (0..50_000).map(|n| format!("- {{ path: /{n}, upstream: u{n} }}\n")).collect();
    let upstreams: String = (0..50_000).map(|n| format!("    u{n}: builtin\n")).collect();
    let lost: String = (0..50_000).map(|n| format!("- {{ path: /{n}, upstream: x{n} }}\n")).collect();
    let methods: String = (0..100_000).map(|n| format!("M{n}, ")).collect();
    let listeners: String = (0..200_000).map(|n| format!("127.0.0.1:{}, ", n % 65_536)).collect();
    let long = "a".repeat(1 << 20);
    for (text, good) in [
        (format!("gateway:\n  upstreams:\n{upstreams}  routes:\n{}", routes.replace("- ", "  - ")), true),
        (format!("gateway:\n  upstreams:\n{upstreams}  routes:\n{}", lost.replace("- ", "  - ")), false),
        (
            format!(
                "gateway: {{ upstreams: {{ a: builtin }}, routes: [{{ path: /{long}, upstream: a, methods: [{methods}] }}] }}"
            ),
            true,
        ),
        (format!("gateway: {{ listen: [{listeners}] }}"), false),
    ] {
        let begun = Instant::now();
        let read = parse("vast", &text);
        assert_eq!(read.is_ok(), good);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_million_rules_are_refused_and_ten_thousand_are_not() {
    let million = format!("rules:\n{}", "- {}\n".repeat(1_000_000));
    let report = parse("million", &million).unwrap_err();
    assert_eq!(report.len(), 1);
    assert_eq!(report.diagnostics()[0].message, "1000000 rules: the most is 100000");

    let many: String = (0..10_000)
        .map(|n| {
            format!(
                "- {{ name: r{n}, match: 'GET /api/{n}/**', when: \"header['x-tier'] != 'v{n}'\", key: client.ip, \
                 limits: [{}/1m, {{ token_bucket: 10/s, burst: 20 }}] }}\n",
                n + 1
            )
        })
        .collect();
    let begun = Instant::now();
    let loaded = parse("many", &format!("memory: 8GiB\nrules:\n{many}")).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.settings.rules.len(), 10_000);
    // Optimised it takes a fifth of a second; this leaves room for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn many_faults_are_counted_and_not_all_shown() {
    let text = format!("rules:\n{}", "- { name: r, nonsense: 1 }\n".repeat(20_000));
    let begun = Instant::now();
    let report = parse("faulty", &text).unwrap_err();
    let shown = report.render(Style::Plain);
    assert!(report.len() > 20_000);
    assert!(shown.ends_with(&format!("and {} more", report.len() - 100)), "{}", &shown[shown.len() - 100..]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_file_full_of_faults_is_refused_quickly() {
    let doubled = "a: 1\n".repeat(300_000);
    let unknown: String = (0..300_000).map(|n| format!("f{n}: 1\n")).collect();
    for text in [doubled, unknown] {
        let begun = Instant::now();
        let report = parse("faulty", &text).unwrap_err();
        assert!(report.diagnostics().len() <= 10_000);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn no_password_is_shown() {
    let text = "gateway: { upstreams: { a: 'http://u:hunter2@h' } }\nstore: redi://u:hunter2@h\n";
    let report = parse("secret", text).unwrap_err();
    assert_eq!(report.len(), 2);
    let shown: String = report.diagnostics().iter().map(ToString::to_string).collect();
    assert!(!format!("{shown}{report}").contains("hunter2"), "{report}");
}

#[test]
fn faults_on_endless_lines_are_named_without_showing_them() {
    let text = format!("rules: [{}{{ name: 'a b', limits: [1/s] }}]", "{ name: a, limits: [1/s] }, ".repeat(50_000));
    let report = parse("wide", &text).unwrap_err();
    let shown = report.render(Style::Plain);
    assert!(shown.contains("--> wide:1:"), "{}", &shown[..200]);
    assert!(shown.len() < 100_000);
}

#[test]
fn colours_change_the_look_and_not_the_text() {
    let report = parse("rules.yaml", "rulez: []").unwrap_err();
    let coloured = report.render(Style::Coloured);
    assert!(coloured.contains("\u{1b}["));
    assert!(!report.render(Style::Plain).contains('\u{1b}'));
    assert_eq!(report.diagnostics()[0].severity, Severity::Error);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        if let Err(report) = parse("any", &text) {
            prop_assert!(!report.is_empty());
            let _ = report.render(Style::Coloured);
        }
    }

    #[test]
    fn any_bytes_of_yaml_are_read_or_refused(text in "[-a-z0-9:{}\\[\\],&*!|>'\"%@`#? \t\r\n\u{0}\u{e9}]{0,200}") {
        if let Err(report) = parse("any", &text) {
            prop_assert!(!report.is_empty());
            let _ = report.render(Style::Plain);
        }
    }

    /// A good file with a piece cut out, doubled or replaced.
    #[test]
    fn damaged_files_are_read_or_refused(
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
            Ok(loaded) => drop(loaded.warnings.render(Style::Plain)),
            Err(report) => prop_assert!(!report.render(Style::Plain).is_empty()),
        }
    }
}

/// What a process publishes as the fleet's first version must say what its file says.
#[test]
fn what_a_fleet_shares_is_cut_out_of_a_file_as_it_is_written() {
    let shared = |text: &str| {
        let settings = sluicegate_config::parse("rules.yaml", text).unwrap().settings;
        sluicegate_config::shared_text(text, &settings)
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
