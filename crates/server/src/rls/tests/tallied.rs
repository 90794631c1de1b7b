//! What is counted by values, where the reference's files ask for it, and of limits of zero.

use super::support::{Served, descriptor, request, serve_file};
use crate::rls::LimitCounts;
use crate::rls::proto::RateLimitDescriptor;

const FILE: &str = "
domain: edge
descriptors:
- key: path
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: path
  value: /closed
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 0}
- key: watched
  detailed_metric: true
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: route
  value_to_metric: true
  descriptors:
  - key: account
    rate_limit: {unit: minute, requests_per_unit: 5}
- key: file
  value: img/*
  share_threshold: true
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: quiet
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: quiet
  value: none
  rate_limit: {unit: minute, requests_per_unit: 0}
";

async fn ask(served: &Served, entries: &[(&str, &str)]) {
    served.ask(request("edge", [descriptor(entries)])).await;
}

/// Limit, entries, and the descriptors that were admitted, refused and would have been refused.
fn told(counts: Vec<LimitCounts>) -> Vec<(String, String, [u64; 3])> {
    let row = |it: LimitCounts| (it.limit.unwrap_or_default(), it.entries, [it.admitted, it.refused, it.would_refuse]);
    let mut rows: Vec<_> = counts.into_iter().map(row).collect();
    rows.sort();
    rows
}

fn row(limit: &str, entries: &str, counts: [u64; 3]) -> (String, String, [u64; 3]) {
    (limit.to_owned(), entries.to_owned(), counts)
}

#[tokio::test]
async fn values_are_told_apart_where_the_file_asks_for_it() {
    let served = serve_file(FILE).await;
    for path in ["/a", "/a", "/a", "/b", "/closed"] {
        ask(&served, &[("path", path)]).await;
    }
    for _ in 0..3 {
        ask(&served, &[("watched", "w")]).await;
    }
    ask(&served, &[("route", "draw"), ("account", "alice")]).await;
    ask(&served, &[("route", "draw"), ("account", "bob")]).await;
    let expected = [
        row("edge.path", "path=/a", [1, 2, 0]),
        row("edge.path", "path=/b", [1, 0, 0]),
        row("edge.path_/closed", "path=/closed", [0, 1, 0]),
        row("edge.route.account", "route=draw", [2, 0, 0]),
        row("edge.watched", "watched=w", [1, 0, 2]),
    ];
    assert_eq!(told(served.rls.values()), expected);
}

/// A client's values are its own: nothing keeps them unless the file says so.
#[tokio::test]
async fn values_are_not_told_where_nobody_asks_for_it() {
    let served = serve_file(FILE).await;
    ask(&served, &[("quiet", "secret")]).await;
    ask(&served, &[("quiet", "none")]).await;
    // All values under one threshold are one to it.
    ask(&served, &[("file", "img/private")]).await;
    ask(&served, &[("elsewhere", "x")]).await;
    assert_eq!(told(served.rls.values()), []);
    assert_eq!(told(served.rls.zero_limits()), [row("edge.quiet_none", "", [0, 1, 0])]);
}

/// What comes back was counted when it was spent; what only looks is counted as rules count it.
#[tokio::test]
async fn hits_that_come_back_are_not_counted_again() {
    let served = serve_file(FILE).await;
    for (hits, is_negative_hits) in [(1, false), (1, true), (0, false)] {
        let descriptor =
            RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..descriptor(&[("path", "/a")]) };
        served.ask(request("edge", [descriptor])).await;
    }
    assert_eq!(told(served.rls.values()), [row("edge.path", "path=/a", [2, 0, 0])]);
}
