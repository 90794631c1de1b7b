#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod escaping;
mod faults;
mod lines;
mod moments;
mod request_ids;
mod speed;
mod writing;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use http::Version;

use super::{Line, Verdict};

/// A line with nothing in it that need not be.
fn plain() -> Line<'static> {
    Line {
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
        verdict: Verdict::Allowed,
        rule: None,
        key_hash: None,
        shadow: None,
        store_lost: false,
        aborted: false,
    }
}

/// A line with everything in it.
fn full() -> Line<'static> {
    Line {
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
        verdict: Verdict::Allowed,
        rule: Some("per-ip"),
        key_hash: Some(0x00c0_ffee_1234_5678),
        shadow: Some("new rule"),
        store_lost: true,
        aborted: true,
        ..plain()
    }
}

/// Waits for what another thread does.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
