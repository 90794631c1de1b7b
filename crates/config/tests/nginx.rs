//! nginx configurations, and the rule files that are made of them.
//!
//! Each file of `nginx/` is imported; its snapshot shows the rule file and what is said about the rest.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sluicegate_config::nginx::{Imported, convert, import};
use sluicegate_config::{Loaded, parse};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// What our own reader makes of it, which must always be something.
fn accepted(imported: &Imported) -> Loaded {
    parse("rules.yaml", &imported.yaml).unwrap_or_else(|report| panic!("{report}\n{}", imported.yaml))
}

/// The rule file, what is said about the rest, and our own warnings, without where this machine keeps them.
fn shown(imported: &Imported) -> String {
    let mut text = format!("{}---\n", imported.yaml);
    for remark in &imported.remarks {
        writeln!(text, "{remark}").unwrap();
    }
    writeln!(text, "{}", accepted(imported).warnings).unwrap();
    text.replace(&format!("{}/", folder().display()), "")
}

#[test]
fn configurations_become_rule_files() {
    insta::glob!("nginx/*.conf", |path| {
        let imported = import(path).unwrap_or_else(|error| panic!("{error}"));
        insta::assert_snapshot!(shown(&imported));
    });
}

/// What one location becomes.
fn location(lines: &str) -> Imported {
    let text = format!(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=10r/s;\nlimit_conn_zone $host zone=many:1m;\n\
         server {{ location /a/ {{ {lines} return 200; }} }}"
    );
    convert("nginx.conf", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_limit_becomes_what_it_means() {
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
        accepted(&imported);
        assert!(imported.yaml.contains(expected), "{lines}\n{}", imported.yaml);
        assert_eq!(imported.not_carried(), 0, "{lines}: {:?}", imported.remarks);
    }
}

#[test]
fn what_is_not_carried_over_is_listed_with_its_line() {
    for (lines, said) in [
        ("limit_req zone=two;", "there is no zone 'two'"),
        ("limit_req zone=one burst=x;", "no whole number"),
        ("limit_req zone=one; limit_req zone=one;", "twice"),
        ("limit_req burst=1;", "zone=NAME is missing"),
        ("limit_conn many;", "how many"),
        ("limit_conn many 0;", "how many"),
        ("limit_rate $speed;", "not a fixed size"),
        ("limit_req_status 200;", "400 to 599"),
        ("limit_req zone=one burst=18446744073709551615;", "no rule can say it"),
        ("gzip on;", "compress in the program behind"),
        ("deny all;", "answered with 403"),
        ("frobnicate 3;", "nothing like it"),
        ("content_by_lua_block { ngx.say('}') }", "nothing like it"),
    ] {
        let imported = location(lines);
        accepted(&imported);
        let found = imported.remarks.iter().find(|remark| remark.to_string().contains(said));
        let remark = found.unwrap_or_else(|| panic!("{lines}: {:?}", imported.remarks));
        assert_eq!((remark.place.to_string().as_str(), imported.not_carried() > 0), ("nginx.conf:3", true), "{lines}");
    }
}

#[test]
fn faults_are_told_with_their_place() {
    for (text, said) in [
        ("a b\n", "nginx.conf:1: `a b` has no end: add `;`"),
        ("\nhttp {\n server {\n }\n", "nginx.conf:2: this block is never closed"),
        ("a;\n}\n", "nginx.conf:2: this `}` closes nothing"),
        ("a {\n b }\n", "nginx.conf:2: `b` has no end"),
        ("a;\n;", "nginx.conf:2: a directive's name is missing"),
        ("a;\nb 'c;\n", "nginx.conf:2: the quote that begins here is never closed"),
        ("a 'b'c;", "nginx.conf:1: text follows directly on the closing quote"),
        (&"a {".repeat(100), "nginx.conf:1: blocks nest deeper"),
        ("x_by_lua_block {", "nginx.conf:1: the block of Lua"),
    ] {
        let error = convert("nginx.conf", text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{text}: {error}");
    }
    let missing = import(folder().join("nginx/no-such.conf")).unwrap_err().to_string();
    assert!(missing.contains("no-such.conf cannot be read"), "{missing}");
}

#[test]
fn a_file_that_includes_itself_is_refused() {
    let error = import(folder().join("nginx/loop/loop.conf")).unwrap_err().to_string();
    assert!(error.contains("does one include itself?"), "{error}");
}

#[test]
fn servers_too_many_for_one_condition_get_a_rule_each() {
    let mut text = "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;\n".to_owned();
    for number in 0..600 {
        let limit = if number % 2 == 0 { "limit_req zone=one;" } else { "" };
        writeln!(text, "server {{ server_name host-{number}.example; location / {{ {limit} return 200; }} }}").unwrap();
    }
    let imported = convert("nginx.conf", &text).unwrap();
    let rules = accepted(&imported).settings.rules;
    let targets: Vec<String> = rules.iter().map(|rule| rule.target.to_string()).collect();
    assert_eq!(targets.len(), 299);
    assert!(targets.contains(&"host host-598.example".to_owned()));
    // The default server is for all hosts but the others', which does not fit.
    let remarks: Vec<String> = imported.remarks.iter().map(ToString::to_string).collect();
    assert!(remarks[0].starts_with("nginx.conf:1: note: ") && remarks[0].contains("a count of its own"), "{remarks:?}");
    assert!(remarks[1].starts_with("nginx.conf:2: not carried over: `limit_req zone=one`"), "{remarks:?}");
    assert_eq!(remarks.len(), 2);
}
