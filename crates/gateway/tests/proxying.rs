//! Requests go through, and come out as they should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use support::raw::Client;
use support::upstream::Upstream;
use support::{Served, before};

#[test]
fn a_request_goes_through_and_its_answer_comes_back() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], "rules: [{ name: total, limits: [3/1h] }]"));
    let mut client = Client::connect(served.at);
    for left in [2, 1, 0] {
        let answer = client.get("/x?y=z");
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        assert!(answer.header("ratelimit").unwrap().starts_with(&format!("\"total\";r={left};")), "{answer:?}");
    }
    let refused = client.get("/x");
    assert_eq!((refused.status, refused.header("content-type")), (429, Some("application/problem+json")));
    assert!(refused.header("retry-after").is_some());
    let seen = upstream.seen.lock();
    assert_eq!(seen.len(), 3);
    assert_eq!(
        (seen[0].uri().to_string().as_str(), &seen[0].headers()["host"]),
        ("/x?y=z", &"shop.example".parse().unwrap())
    );
    assert_eq!(seen[0].headers()["x-forwarded-for"], "127.0.0.1");
    assert_eq!(upstream.connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}
