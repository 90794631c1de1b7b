//! Tables of valid and invalid server headers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

use super::structured::{dictionary, list};
use super::{QuotaStatus, ServerHints};

/// 2026-01-01T00:16:40Z.
const NOW: u64 = 1_767_226_600;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

/// Builds headers from `name: value` lines.
fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).unwrap());
    }
    headers
}

fn read(status: u16, lines: &[&str]) -> ServerHints {
    ServerHints::read(StatusCode::from_u16(status).unwrap(), &headers(lines), now())
}

fn retry_after(status: u16, lines: &[&str]) -> Option<f64> {
    read(status, lines).retry_after.map(|hold| hold.as_secs_f64())
}

#[test]
fn retry_after_is_read_only_with_statuses_that_apply_to_all_calls() {
    for (status, value, expected) in [
        (429, "Retry-After: 5", Some(5.0)),
        (503, "Retry-After: 120", Some(120.0)),
        (403, "Retry-After: 60", Some(60.0)),
        (301, "Retry-After: 2", Some(2.0)),
        (307, "Retry-After: 2", Some(2.0)),
        (200, "Retry-After: 5", None),
        (202, "Retry-After: 5", None),
        (404, "Retry-After: 5", None),
        (500, "Retry-After: 5", None),
        (429, "Retry-After:   7  ", Some(7.0)),
        (429, "Retry-After: 0", None),
        (429, "Retry-After: 1.5", Some(1.5)),
        (429, "Retry-After: 0.0000000001", None),
        (429, "Retry-After: -5", None),
        (429, "Retry-After: +5", None),
        (429, "Retry-After: 5s", None),
        (429, "Retry-After: 1e3", None),
        (429, "Retry-After: 5.", None),
        (429, "Retry-After: .5", None),
        (429, "Retry-After: 1.2.3", None),
        (429, "Retry-After: NaN", None),
        (429, "Retry-After: ", None),
        (429, "Retry-After: soon", None),
        (429, "Retry-After: \u{662}", None),
        (429, "Retry-After: Thu, 01 Jan 2026 00:17:40 GMT", Some(60.0)),
        (429, "Retry-After: Thursday, 01-Jan-26 00:17:40 GMT", Some(60.0)),
        (429, "Retry-After: Thu Jan  1 00:17:40 2026", Some(60.0)),
        (429, "Retry-After: Thu, 01 Jan 2026 00:16:40 GMT", None),
        (429, "Retry-After: Fri, 01 Jan 1999 00:00:00 GMT", None),
        (429, "Retry-After: Thu, 32 Jan 2026 00:17:40 GMT", None),
        (429, "Retry-After: Thu, 01 Jan 2026", None),
    ] {
        assert_eq!(retry_after(status, &[value]), expected, "{status} {value}");
    }
}

#[test]
fn an_overflowing_wait_saturates() {
    let advice = read(429, &["Retry-After: 99999999999999999999999999"]);
    assert_eq!(advice.retry_after, Some(Duration::from_secs(u64::MAX)));
}

#[test]
fn the_longest_of_several_waits_wins() {
    assert_eq!(retry_after(429, &["Retry-After: 5", "Retry-After: 9", "Retry-After: junk"]), Some(9.0));
    let both = ["grpc-status: 8", "grpc-retry-pushback-ms: 700", "Retry-After: 0.5"];
    assert_eq!(retry_after(200, &both), Some(0.7));
}

#[test]
fn dates_are_relative_to_the_date_header() {
    // The server's clock is an hour ahead.
    let date = "Date: Thu, 01 Jan 2026 01:16:40 GMT";
    assert_eq!(retry_after(429, &[date, "Retry-After: Thu, 01 Jan 2026 01:16:50 GMT"]), Some(10.0));
    let reset = format!("X-RateLimit-Reset: {}", NOW + 3_600 + 25);
    let advice = read(200, &[date, "X-RateLimit-Remaining: 1", &reset]);
    assert_eq!(advice.quota.unwrap().reset, Duration::from_secs(25));
    assert_eq!(retry_after(429, &["Date: yesterday", "Retry-After: Thu, 01 Jan 2026 00:16:50 GMT"]), Some(10.0));
}

#[test]
fn grpc_pushback_is_read_from_headers_and_trailers() {
    for (lines, expected) in [
        (vec!["grpc-status: 8", "grpc-retry-pushback-ms: 250"], Some(0.25)),
        (vec!["grpc-status: 14", "grpc-retry-pushback-ms: 250"], Some(0.25)),
        (vec!["grpc-status: 0", "grpc-retry-pushback-ms: 250"], None),
        (vec!["grpc-retry-pushback-ms: 250"], None),
        (vec!["grpc-status: 8", "grpc-retry-pushback-ms: -1"], None),
        (vec!["grpc-status: 8", "grpc-retry-pushback-ms: soon"], None),
        (vec!["grpc-status: 8", "retry-after: 3"], Some(3.0)),
        (vec!["grpc-status: 5", "retry-after: 3"], None),
        (vec!["grpc-status: 8"], None),
    ] {
        assert_eq!(retry_after(200, &lines), expected, "{lines:?}");
        let trailers = ServerHints::read_trailers(&headers(&lines), now());
        assert_eq!(trailers.retry_after.map(|hold| hold.as_secs_f64()), expected, "{lines:?}");
    }
}

/// Remaining, reset in seconds, limit, window in seconds.
type ExpectedQuota = Option<(u64, u64, Option<u64>, Option<u64>)>;

fn quota(lines: &[&str]) -> ExpectedQuota {
    let expected = |QuotaStatus { remaining, reset, limit: quota, window }: QuotaStatus| {
        (remaining, reset.as_secs(), quota, window.map(|window| window.as_secs()))
    };
    read(200, lines).quota.map(expected)
}

#[test]
fn the_structured_field_is_read() {
    for (lines, expected) in [
        (vec![r#"RateLimit: "per-ip";r=50;t=30"#], Some((50, 30, None, None))),
        (
            vec![r#"RateLimit: "per-ip";r=50;t=30"#, r#"RateLimit-Policy: "per-ip";q=300;w=60"#],
            Some((50, 30, Some(300), Some(60))),
        ),
        (vec![r#"RateLimit: "per-ip"; r=50;  t=30"#], Some((50, 30, None, None))),
        (vec!["RateLimit: default;r=0;t=1"], Some((0, 1, None, None))),
        (vec![r#"RateLimit: "a";r=9;t=1, "b";r=2;t=60"#], Some((2, 60, None, None))),
        (vec![r#"RateLimit: "a";r=9;t=1"#, r#"RateLimit: "b";r=2;t=60"#], Some((2, 60, None, None))),
        (vec![r#"RateLimit: "a";r=2;t=5, "b";r=2;t=60"#], Some((2, 60, None, None))),
        (vec![r#"RateLimit: "b";r=2;t=60, "a";r=2;t=5"#], Some((2, 60, None, None))),
        (
            vec![r#"RateLimit: "b";r=2"#, r#"RateLimit-Policy: "a";q=1;w=1, "b";q=9;w=60"#],
            Some((2, 60, Some(9), Some(60))),
        ),
        (
            vec![r#"RateLimit: "a";r=1;t=9, "b";r=2;t=60"#, r#"RateLimit-Policy: "a";q=1000;w=9;qu="content-bytes""#],
            Some((2, 60, None, None)),
        ),
        (
            vec![r#"RateLimit: "a";r=1;t=9;pk=:QUJDRA==:"#, r#"RateLimit-Policy: "a";q=5;w=9;qu="requests""#],
            Some((1, 9, Some(5), Some(9))),
        ),
        (vec![r#"RateLimit: "a\"\\b";r=1;t=9"#], Some((1, 9, None, None))),
        (vec!["RateLimit: limit=100, remaining=50, reset=30"], Some((50, 30, Some(100), None))),
        (
            vec!["RateLimit: limit=100,remaining=50,reset=30", "RateLimit-Policy: 10;w=1, 100;w=60"],
            Some((50, 30, Some(100), Some(60))),
        ),
        (vec!["RateLimit: remaining=0, reset=5"], Some((0, 5, None, None))),
        // Without a reset time or a remaining count there is no quota.
        (vec![r#"RateLimit: "a";r=1"#], None),
        (vec![r#"RateLimit: "a";t=1"#], None),
        (vec![r#"RateLimit: "a";r=1;t=0"#], None),
        (vec!["RateLimit: remaining=5"], None),
        // A syntax error invalidates the entire field.
        (vec![r#"RateLimit: "a;r=1;t=5"#], None),
        (vec![r#"RateLimit: "a";r=-1;t=5"#], None),
        (vec![r#"RateLimit: "a";r=1;t=-5"#], None),
        (vec![r#"RateLimit: "a";r=1;t=5,"#], None),
        (vec![r#"RateLimit: "a";r=1;t=5 "b";r=0;t=5"#], None),
        (vec![r#"RateLimit: "a";;r=1;t=5"#], None),
        (vec![r#"RateLimit: ("a" "b");r=1;t=5"#], None),
        (vec![r#"RateLimit: "a\x";r=1;t=5"#], None),
        (vec!["RateLimit: "], None),
        (vec!["RateLimit: =,;"], None),
        (vec!["RateLimit: \u{e9};r=1;t=5"], None),
    ] {
        assert_eq!(quota(&lines), expected, "{lines:?}");
    }
}

#[test]
fn the_three_headers_are_read_in_each_family() {
    for prefix in ["RateLimit", "X-RateLimit", "X-Rate-Limit", "x-ratelimit"] {
        for (limit, remaining, reset, expected) in [
            ("100", "50", "30", Some((50, 30, Some(100), None))),
            ("", "0", "30", Some((0, 30, None, None))),
            ("0", "0", "30", Some((0, 30, None, None))),
            ("100, 100;w=60", "50", "30", Some((50, 30, Some(100), Some(60)))),
            ("100;w=60", "50", "30", Some((50, 30, Some(100), Some(60)))),
            ("many", "50", "30", Some((50, 30, None, None))),
            ("100", "50", "1767226700", Some((50, 100, Some(100), None))),
            ("100", "50", "1767226700000", Some((50, 100, Some(100), None))),
            ("100", "50", "1767226700.25", Some((50, 100, Some(100), None))),
            ("100", "50", "1767226600", None),
            ("100", "50", "1700000000", None),
            ("100", "50", "0", None),
            ("100", "50", "0.5", Some((50, 0, Some(100), None))),
            ("100, 10", "50, 3", "30, 9", Some((3, 9, Some(10), None))),
            ("100", "50, 3", "30", Some((3, 30, Some(100), None))),
            ("100", "99999999999999999999999", "30", Some((u64::MAX, 30, Some(100), None))),
            ("100", "-1", "30", None),
            ("100", "1.5", "30", None),
            ("100", "", "30", None),
            ("100", "50", "", None),
            ("100", "50", "-30", None),
            ("100", "50", "soon", None),
            ("100", "lots", "30", None),
        ] {
            let lines = [
                format!("{prefix}-Limit: {limit}"),
                format!("{prefix}-Remaining: {remaining}"),
                format!("{prefix}-Reset: {reset}"),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(quota(&lines), expected, "{lines:?}");
        }
    }
}

#[test]
fn the_first_parseable_family_wins() {
    let x = ["X-RateLimit-Remaining: 7", "X-RateLimit-Reset: 70"];
    let legacy = ["RateLimit-Remaining: 8", "RateLimit-Reset: 80"];
    let ietf = r#"RateLimit: "a";r=9;t=90"#;
    assert_eq!(quota(&[x[0], x[1], legacy[0], legacy[1], ietf]), Some((9, 90, None, None)));
    assert_eq!(quota(&[x[0], x[1], legacy[0], legacy[1], "RateLimit: junk"]), Some((8, 80, None, None)));
    assert_eq!(quota(&[x[0], x[1], legacy[0]]), Some((7, 70, None, None)));
}

#[test]
fn a_response_without_hints_gives_none() {
    assert!(read(200, &["content-type: text/plain"]).is_empty());
    assert!(read(429, &[]).is_empty());
}

proptest! {
    #[test]
    fn arbitrary_header_bytes_do_not_panic(
        status in 100_u16..1_000,
        lines in prop::collection::vec((0_usize..12, prop::collection::vec(any::<u8>(), 0..40)), 0..12),
    ) {
        const NAMES: [&str; 12] = [
            "retry-after", "date", "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining",
            "ratelimit-reset", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "grpc-status",
            "grpc-retry-pushback-ms",
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(NAMES[name], value);
            }
        }
        let advice = ServerHints::read(StatusCode::from_u16(status).unwrap(), &headers, now());
        prop_assert!(advice.quota.is_none_or(|budget| !budget.reset.is_zero()));
    }

    #[test]
    fn arbitrary_text_does_not_panic_the_parser(text in "[\"a-c0-9;=,.:?\\\\ rt-]{0,60}|\\PC{0,30}") {
        list(&text);
        dictionary(&text)("remaining");
    }

    #[test]
    fn written_fields_are_read_back(remaining in 0..1_u64 << 40, reset in 1_u64..900_000_000, limit in 1_u64..1 << 40) {
        let lines = [format!(r#"RateLimit: "p";r={remaining};t={reset}"#), format!(r#"RateLimit-Policy: "p";q={limit};w=9"#)];
        prop_assert_eq!(quota(&[&lines[0], &lines[1]]), Some((remaining, reset, Some(limit), Some(9))));
    }
}
