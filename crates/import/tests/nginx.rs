//! Snapshot tests of the nginx importer.
//!
//! Each file of `nginx/` is imported; its snapshot shows the rule file and the notes.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sluicegate_config::{LoadedConfig, parse};
use sluicegate_import::nginx::{ImportedConfig, convert, import};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Parses the imported file, which must always be valid.
fn parse_imported(imported: &ImportedConfig) -> LoadedConfig {
    parse("rules.yaml", &imported.yaml).unwrap_or_else(|report| panic!("{report}\n{}", imported.yaml))
}

/// Renders the rule file, the notes and the parser's warnings, without machine-specific paths.
fn render(imported: &ImportedConfig) -> String {
    let mut text = format!("{}---\n", imported.yaml);
    for note in &imported.notes {
        writeln!(text, "{note}").unwrap();
    }
    writeln!(text, "{}", parse_imported(imported).warnings).unwrap();
    text.replace(&format!("{}/", directory().display()), "")
}

#[test]
fn configurations_become_rule_files() {
    insta::glob!("nginx/*.conf", |path| {
        let imported = import(path).unwrap_or_else(|error| panic!("{error}"));
        insta::assert_snapshot!(render(&imported));
    });
}

/// Imports a configuration with one location.
fn location(lines: &str) -> ImportedConfig {
    let text = format!(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=10r/s;\nlimit_conn_zone $host zone=many:1m;\n\
         server {{ location /a/ {{ {lines} return 200; }} }}"
    );
    convert("nginx.conf", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_limit_is_converted() {
    for (lines, expected) in [
        ("limit_req zone=one;", "limits: [{ token_bucket: 10/s, burst: 1 }]\n    on_limit: { status: 503 }\n"),
        ("limit_req zone=one burst=5 nodelay;", "limits: [{ token_bucket: 10/s, burst: 6 }]"),
        ("limit_req zone=one burst=5;", "limits: [{ leaky_bucket: 10/s, queue: 6 }]"),
        ("limit_req zone=one burst=5 delay=0;", "limits: [{ leaky_bucket: 10/s, queue: 6 }]"),
        ("limit_req zone=one burst=5 delay=9;", "limits: [{ token_bucket: 10/s, burst: 6 }]"),
        (
            "limit_req zone=one burst=5 delay=2;",
            "limits: [{ token_bucket: 10/s, burst: 3 }]\n    \
             on_limit: { queue: { max_wait: 300ms, max_waiting: 3 }, status: 503 }\n",
        ),
        ("limit_req zone=one; limit_req_status 429;", "on_limit: { status: 429 }"),
        ("limit_req zone=one; limit_req_dry_run on;", "mode: shadow"),
        ("limit_conn many 7;", "key: host\n    limits: [{ concurrency: 7 }]\n    on_limit: { status: 503 }\n"),
        ("limit_conn many 7; limit_conn_status 429; limit_conn_dry_run on;", "status: 429 }\n    mode: shadow"),
        ("limit_rate 500k;", "limits: [{ bandwidth: 500KiB/s }]\n"),
        ("limit_rate 1m; limit_rate_after 2m;", "limits: [{ bandwidth: 1MiB/s, burst: 2MiB }]"),
        ("limit_rate 0;", "rules: []"),
    ] {
        let imported = location(lines);
        parse_imported(&imported);
        assert!(imported.yaml.contains(expected), "{lines}\n{}", imported.yaml);
        assert_eq!(imported.unsupported_count(), 0, "{lines}: {:?}", imported.notes);
    }
}

#[test]
fn unsupported_directives_are_listed_with_their_line() {
    for (lines, expected) in [
        ("limit_req zone=two;", "unknown or unsupported zone 'two'"),
        ("limit_req zone=one burst=x;", "invalid number in"),
        ("limit_req zone=one; limit_req zone=one;", "twice"),
        ("limit_req burst=1;", "missing zone=NAME"),
        ("limit_conn many;", "missing number of connections"),
        ("limit_conn many 0;", "missing number of connections"),
        ("limit_rate $speed;", "not a fixed size"),
        ("limit_req_status 200;", "400 to 599"),
        ("limit_req zone=one burst=18446744073709551615;", "no equivalent rule"),
        ("gzip on;", "compress in the upstream application"),
        ("deny all;", "the response is 403"),
        ("frobnicate 3;", "no equivalent"),
        ("content_by_lua_block { ngx.say('}') }", "no equivalent"),
    ] {
        let imported = location(lines);
        parse_imported(&imported);
        let found = imported.notes.iter().find(|note| note.to_string().contains(expected));
        let note = found.unwrap_or_else(|| panic!("{lines}: {:?}", imported.notes));
        assert_eq!(
            (note.location.to_string().as_str(), imported.unsupported_count() > 0),
            ("nginx.conf:3", true),
            "{lines}"
        );
    }
}

#[test]
fn syntax_errors_name_file_and_line() {
    for (text, expected) in [
        ("a b\n", "nginx.conf:1: missing `;` after `a b`"),
        ("\nhttp {\n server {\n }\n", "nginx.conf:2: unclosed block"),
        ("a;\n}\n", "nginx.conf:2: unmatched `}`"),
        ("a {\n b }\n", "nginx.conf:2: missing `;` after `b`"),
        ("a;\n;", "nginx.conf:2: missing directive name"),
        ("a;\nb 'c;\n", "nginx.conf:2: unclosed quote"),
        ("a 'b'c;", "nginx.conf:1: text directly after a closing quote"),
        (&"a {".repeat(100), "nginx.conf:1: blocks are nested deeper"),
        ("x_by_lua_block {", "nginx.conf:1: unclosed Lua block"),
    ] {
        let error = convert("nginx.conf", text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let missing = import(directory().join("nginx/no-such.conf")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("no-such.conf: "), "{missing}");
}

#[test]
fn a_file_that_includes_itself_is_refused() {
    let error = import(directory().join("nginx/loop/loop.conf")).unwrap_err().to_string();
    assert!(error.contains("check for an include cycle"), "{error}");
}

#[test]
fn too_many_servers_for_one_condition_get_a_rule_each() {
    let mut text = "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;\n".to_owned();
    for number in 0..600 {
        let limit = if number % 2 == 0 { "limit_req zone=one;" } else { "" };
        writeln!(text, "server {{ server_name host-{number}.example; location / {{ {limit} return 200; }} }}").unwrap();
    }
    let imported = convert("nginx.conf", &text).unwrap();
    let rules = parse_imported(&imported).settings.rules;
    let targets: Vec<String> = rules.iter().map(|rule| rule.target.to_string()).collect();
    assert_eq!(targets.len(), 299);
    assert!(targets.contains(&"host host-598.example".to_owned()));
    // The condition of the default server excludes all other hosts and would be too long.
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert!(notes[0].starts_with("nginx.conf:1: note: ") && notes[0].contains("its own counter"), "{notes:?}");
    assert!(notes[1].starts_with("nginx.conf:2: not converted: `limit_req zone=one`"), "{notes:?}");
    assert_eq!(notes.len(), 2);
}
