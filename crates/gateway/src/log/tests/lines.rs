use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use sluicegate_config::settings::LogFormat::{self, Common, Json};

use super::super::buffer::Lost;
use super::super::{Line, ServedBy, Verdict, format};
use super::{full, plain};

fn line(format: LogFormat, line: &Line<'_>) -> String {
    let mut out = Vec::new();
    format::line(format, &mut out, line);
    String::from_utf8(out).unwrap()
}

fn lost(format: LogFormat) -> String {
    let mut out = Vec::new();
    let first = plain().time;
    format::lost(format, &mut out, &Lost { lines: 12, first, last: first + Duration::from_secs(3) });
    String::from_utf8(out).unwrap()
}

#[test]
fn json_leaves_out_what_is_not_there() {
    let expected = concat!(
        r#"{"time":"2000-10-10T13:55:36.042Z","request_id":"5f0c7d1e9a3b48627c1d0e5f8a9b3c46","client":"203.0.113.7","#,
        r#""method":"GET","host":"shop.example","target":"/x?y=1","version":"HTTP/1.1","request_bytes":0,"status":200,"#,
        r#""response_bytes":2326,"duration":0.001234,"wait":0.000000,"verdict":"allowed"}"#,
        "\n"
    );
    assert_eq!(line(Json, &plain()), expected);
}

#[test]
fn json_says_everything() {
    let expected = concat!(
        r#"{"time":"2000-10-10T13:55:36.042Z","request_id":"5f0c7d1e9a3b48627c1d0e5f8a9b3c46","client":"203.0.113.7","#,
        r#""peer":"::1","tls":true,"method":"GET","host":"shop.example","target":"/x?y=1","version":"HTTP/2.0","#,
        r#""referer":"https://example.com/","user_agent":"curl/8.5.0","request_bytes":17,"status":200,"#,
        r#""response_bytes":2326,"duration":0.001234,"wait":0.250000,"upstream":"shop","server":"127.0.0.1:9001","#,
        r#""upstream_time":0.000987,"attempts":2,"verdict":"allowed","rule":"per-ip","key_hash":"00c0ffee12345678","#,
        r#""shadow":"new rule","store_lost":true,"aborted":true}"#,
        "\n"
    );
    assert_eq!(line(Json, &full()), expected);
}

#[test]
fn common_has_a_dash_for_what_is_not_there() {
    let expected = concat!(
        r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /x?y=1 HTTP/1.1" 200 2326 "-" "-""#,
        " id=5f0c7d1e9a3b48627c1d0e5f8a9b3c46 verdict=allowed rule=- wait=0.000000 rt=0.001234 key=-",
        " upstream=- server=- ut=-\n"
    );
    assert_eq!(line(Common, &plain()), expected);
}

#[test]
fn common_says_what_was_decided() {
    let expected = concat!(
        r#"203.0.113.7 - - [10/Oct/2000:13:55:36 +0000] "GET /x?y=1 HTTP/2.0" 200 2326 "https://example.com/" "#,
        r#""curl/8.5.0" id=5f0c7d1e9a3b48627c1d0e5f8a9b3c46 verdict=allowed rule=per-ip wait=0.250000 rt=0.001234 "#,
        r"key=00c0ffee12345678 upstream=shop server=127.0.0.1:9001 ut=0.000987 shadow=new\x20rule store_lost aborted",
        "\n"
    );
    assert_eq!(line(Common, &full()), expected);
}

/// The page of the manual shows lines as they are written.
#[test]
fn lines_are_as_the_manual_shows_them() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access-log.md")).unwrap();
    let served_by = full().served_by.map(|it| ServedBy { server: Some("http://127.0.0.1:9001"), ..it });
    let shown = Line { served_by, shadow: None, store_lost: false, aborted: false, ..full() };
    for format in [Json, Common] {
        for line in [line(format, &shown), lost(format)] {
            assert!(page.contains(&format!("\n{line}")), "docs/access-log.md does not show {line}");
        }
    }
}

#[test]
fn a_note_stands_in_place_of_lost_lines() {
    let expected =
        "{\"time\":\"2000-10-10T13:55:39.042Z\",\"lost_lines\":12,\"lost_since\":\"2000-10-10T13:55:36.042Z\"}\n";
    assert_eq!(lost(Json), expected);
    let expected = concat!(
        r#"- - - [10/Oct/2000:13:55:39 +0000] "-" 000 0 "-" "-" lost_lines=12 lost_since=2000-10-10T13:55:36.042Z"#,
        "\n"
    );
    assert_eq!(lost(Common), expected);
}

#[test]
fn every_verdict_has_its_word() {
    let verdicts = [
        (Verdict::Allowed, "allowed"),
        (Verdict::Refused, "refused"),
        (Verdict::Degraded, "degraded"),
        (Verdict::Redirected, "redirected"),
        (Verdict::Banned, "banned"),
        (Verdict::Denied, "denied"),
    ];
    for (verdict, word) in verdicts {
        let noted = Line { verdict, ..plain() };
        assert!(line(Json, &noted).contains(&format!(r#""verdict":"{word}"}}"#)), "{word}");
        assert!(line(Common, &noted).contains(&format!(" verdict={word} ")), "{word}");
    }
    let failed = Line { verdict: Verdict::Failed("no_route"), ..plain() };
    assert!(line(Json, &failed).contains(r#""verdict":"failed","failure":"no_route"}"#));
    assert!(line(Common, &failed).contains(" verdict=failed:no_route "));
}

#[test]
fn extreme_numbers_are_numbers_too() {
    let client = IpAddr::V6(Ipv6Addr::from([0xffff; 8]));
    let noted = Line {
        client,
        request_bytes: u64::MAX,
        response_bytes: u64::MAX,
        status: u16::MAX,
        duration: Duration::MAX,
        wait: Duration::from_nanos(999),
        key_hash: Some(u64::MAX),
        ..plain()
    };
    let value: serde_json::Value = serde_json::from_str(&line(Json, &noted)).unwrap();
    assert_eq!(value["client"], client.to_string());
    assert_eq!(value["request_bytes"], u64::MAX);
    assert_eq!(value["status"], u16::MAX);
    assert_eq!(value["key_hash"], "ffffffffffffffff");
    assert_eq!(value["wait"].as_f64(), Some(0.0));
    assert!(line(Json, &noted).contains(r#""duration":18446744073709551615.999999,"#));
}
