use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use sluicegate_config::settings::AccessLogFormat::{self, Common, Json};

use super::super::buffer::DroppedLines;
use super::super::{LogEntry, LogVerdict, ServedBy, format};
use super::{full_entry, minimal_entry};

fn rendered(format: AccessLogFormat, entry: &LogEntry<'_>) -> String {
    let mut out = Vec::new();
    format::write_entry(format, &mut out, entry);
    String::from_utf8(out).unwrap()
}

fn rendered_dropped(format: AccessLogFormat) -> String {
    let mut out = Vec::new();
    let first = minimal_entry().time;
    format::write_dropped(format, &mut out, &DroppedLines { lines: 12, first, last: first + Duration::from_secs(3) });
    String::from_utf8(out).unwrap()
}

#[test]
fn json_omits_absent_fields() {
    let expected = concat!(
        r#"{"time":"2000-10-10T13:55:36.042Z","request_id":"5f0c7d1e9a3b48627c1d0e5f8a9b3c46","client":"203.0.113.7","#,
        r#""method":"GET","host":"shop.example","target":"/x?y=1","version":"HTTP/1.1","request_bytes":0,"status":200,"#,
        r#""response_bytes":2326,"duration":0.001234,"wait":0.000000,"verdict":"allowed"}"#,
        "\n"
    );
    assert_eq!(rendered(Json, &minimal_entry()), expected);
}

#[test]
fn json_has_all_fields() {
    let expected = concat!(
        r#"{"time":"2000-10-10T13:55:36.042Z","request_id":"5f0c7d1e9a3b48627c1d0e5f8a9b3c46","client":"203.0.113.7","#,
        r#""peer":"::1","tls":true,"method":"GET","host":"shop.example","target":"/x?y=1","version":"HTTP/2.0","#,
        r#""referer":"https://example.com/","user_agent":"curl/8.5.0","request_bytes":17,"status":200,"#,
        r#""response_bytes":2326,"duration":0.001234,"wait":0.250000,"upstream":"shop","server":"127.0.0.1:9001","#,
        r#""upstream_time":0.000987,"attempts":2,"verdict":"allowed","rule":"per-ip","key_hash":"00c0ffee12345678","#,
        r#""shadow":"new rule","degraded":true,"aborted":true}"#,
        "\n"
    );
    assert_eq!(rendered(Json, &full_entry()), expected);
}

#[test]
fn common_uses_a_dash_for_absent_fields() {
    let expected = concat!(
        r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /x?y=1 HTTP/1.1" 200 2326 "-" "-""#,
        " id=5f0c7d1e9a3b48627c1d0e5f8a9b3c46 verdict=allowed rule=- wait=0.000000 rt=0.001234 key=-",
        " upstream=- server=- ut=-\n"
    );
    assert_eq!(rendered(Common, &minimal_entry()), expected);
}

#[test]
fn common_has_the_decision_fields() {
    let expected = concat!(
        r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /x?y=1 HTTP/2.0" 200 2326 "https://example.com/" "#,
        r#""curl/8.5.0" id=5f0c7d1e9a3b48627c1d0e5f8a9b3c46 verdict=allowed rule=per-ip wait=0.250000 rt=0.001234 "#,
        r"key=00c0ffee12345678 upstream=shop server=127.0.0.1:9001 ut=0.000987 shadow=new\x20rule degraded aborted",
        "\n"
    );
    assert_eq!(rendered(Common, &full_entry()), expected);
}

/// The manual shows lines exactly as they are written.
#[test]
fn lines_match_the_manual() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access-log.md")).unwrap();
    let served_by = full_entry().served_by.map(|it| ServedBy { server: Some("http://127.0.0.1:9001"), ..it });
    let documented = LogEntry { served_by, shadow: None, degraded: false, aborted: false, ..full_entry() };
    for format in [Json, Common] {
        for line in [rendered(format, &documented), rendered_dropped(format)] {
            assert!(page.contains(&format!("\n{line}")), "docs/access-log.md does not show {line}");
        }
    }
}

#[test]
fn a_summary_replaces_dropped_lines() {
    let expected =
        "{\"time\":\"2000-10-10T13:55:39.042Z\",\"dropped_lines\":12,\"dropped_since\":\"2000-10-10T13:55:36.042Z\"}\n";
    assert_eq!(rendered_dropped(Json), expected);
    let expected = concat!(
        r#"- - - [10/Oct/2000:13:55:39 +0000] "-" 000 0 "-" "-" dropped_lines=12 dropped_since=2000-10-10T13:55:36.042Z"#,
        "\n"
    );
    assert_eq!(rendered_dropped(Common), expected);
}

#[test]
fn every_verdict_has_a_name() {
    let verdicts = [
        (LogVerdict::Allowed, "allowed"),
        (LogVerdict::Refused, "refused"),
        (LogVerdict::Degraded, "degraded"),
        (LogVerdict::Redirected, "redirected"),
        (LogVerdict::Banned, "banned"),
        (LogVerdict::Denied, "denied"),
    ];
    for (verdict, word) in verdicts {
        let entry = LogEntry { verdict, ..minimal_entry() };
        assert!(rendered(Json, &entry).contains(&format!(r#""verdict":"{word}"}}"#)), "{word}");
        assert!(rendered(Common, &entry).contains(&format!(" verdict={word} ")), "{word}");
    }
    let failed = LogEntry { verdict: LogVerdict::Failed("no_route"), ..minimal_entry() };
    assert!(rendered(Json, &failed).contains(r#""verdict":"failed","failure":"no_route"}"#));
    assert!(rendered(Common, &failed).contains(" verdict=failed:no_route "));
}

#[test]
fn extreme_numbers_are_formatted() {
    let client = IpAddr::V6(Ipv6Addr::from([0xffff; 8]));
    let entry = LogEntry {
        client,
        request_bytes: u64::MAX,
        response_bytes: u64::MAX,
        status: u16::MAX,
        duration: Duration::MAX,
        wait: Duration::from_nanos(999),
        key_hash: Some(u64::MAX),
        ..minimal_entry()
    };
    let value: serde_json::Value = serde_json::from_str(&rendered(Json, &entry)).unwrap();
    assert_eq!(value["client"], client.to_string());
    assert_eq!(value["request_bytes"], u64::MAX);
    assert_eq!(value["status"], u16::MAX);
    assert_eq!(value["key_hash"], "ffffffffffffffff");
    assert_eq!(value["wait"].as_f64(), Some(0.0));
    assert!(rendered(Json, &entry).contains(r#""duration":18446744073709551615.999999,"#));
}
