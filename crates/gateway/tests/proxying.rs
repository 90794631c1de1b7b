//! Basic proxying of requests and responses.

use crate::support;

use support::raw::Client;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml};

#[test]
fn a_request_is_forwarded_and_its_response_returned() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "rules: [{ name: total, limits: [3/1h] }]"));
    let mut client = Client::connect(gateway.at);
    for left in [2, 1, 0] {
        let response = client.get("/x?y=z");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert!(response.header("ratelimit").unwrap().starts_with(&format!("\"total\";r={left};")), "{response:?}");
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
