#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod entries;
mod escaping;
mod faults;
mod request_ids;
mod speed;
mod timestamps;
mod writing;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use http::Version;

use super::{LogEntry, LogVerdict};

/// An entry with required values only.
fn minimal_entry() -> LogEntry<'static> {
    LogEntry {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(971_186_136_042),
        request_id: "5f0c7d1e9a3b48627c1d0e5f8a9b3c46",
        client: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        peer: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        tls: false,
        method: "GET",
        target: "/x?y=1",
        host: "shop.example",
        version: Version::HTTP_11,
        referer: None,
        user_agent: None,
        request_bytes: 0,
        status: 200,
        response_bytes: 2_326,
        duration: Duration::from_micros(1_234),
        wait: Duration::ZERO,
        served_by: None,
        verdict: LogVerdict::Allowed,
        rule: None,
        key_hash: None,
        shadow: None,
        degraded: false,
        aborted: false,
    }
}

/// An entry with all values.
fn full_entry() -> LogEntry<'static> {
    LogEntry {
        peer: IpAddr::V6(Ipv6Addr::LOCALHOST),
        tls: true,
        version: Version::HTTP_2,
        referer: Some(b"https://example.com/"),
        user_agent: Some(b"curl/8.5.0"),
        request_bytes: 17,
        wait: Duration::from_millis(250),
        served_by: Some(super::ServedBy {
            upstream: "shop",
            server: Some("127.0.0.1:9001"),
            time: Some(Duration::from_micros(987)),
            attempts: 2,
        }),
        verdict: LogVerdict::Allowed,
        rule: Some("per-ip"),
        key_hash: Some(0x00c0_ffee_1234_5678),
        shadow: Some("new rule"),
        degraded: true,
        aborted: true,
        ..minimal_entry()
    }
}

/// Waits for another thread.
fn wait_until(label: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "timed out: {label}");
        thread::sleep(Duration::from_millis(1));
    }
}
