//! Counters of detailed metrics and of limits of zero.

use super::support::{RlsTestServer, descriptor, request, serve_file};
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

async fn call(served: &RlsTestServer, entries: &[(&str, &str)]) {
    served.call(request("edge", [descriptor(entries)])).await;
}

/// Limit, entries, and the numbers of admitted, refused and shadow-refused descriptors.
fn sorted_rows(counts: Vec<LimitCounts>) -> Vec<(String, String, [u64; 3])> {
    let row = |it: LimitCounts| (it.limit.unwrap_or_default(), it.entries, [it.admitted, it.refused, it.would_refuse]);
    let mut rows: Vec<_> = counts.into_iter().map(row).collect();
    rows.sort();
    rows
}

fn row(limit: &str, entries: &str, counts: [u64; 3]) -> (String, String, [u64; 3]) {
    (limit.to_owned(), entries.to_owned(), counts)
}

#[tokio::test]
async fn detailed_metrics_count_values_separately() {
    let served = serve_file(FILE).await;
    for path in ["/a", "/a", "/a", "/b", "/closed"] {
        call(&served, &[("path", path)]).await;
    }
    for _ in 0..3 {
        call(&served, &[("watched", "w")]).await;
    }
    call(&served, &[("route", "draw"), ("account", "alice")]).await;
    call(&served, &[("route", "draw"), ("account", "bob")]).await;
    let expected = [
        row("edge.path", "path=/a", [1, 2, 0]),
        row("edge.path", "path=/b", [1, 0, 0]),
        row("edge.path_/closed", "path=/closed", [0, 1, 0]),
        row("edge.route.account", "route=draw", [2, 0, 0]),
        row("edge.watched", "watched=w", [1, 0, 2]),
    ];
    assert_eq!(sorted_rows(served.rls.detailed_limits()), expected);
}

/// Client values are not stored unless the configuration enables it.
#[tokio::test]
async fn values_are_not_counted_by_default() {
    let served = serve_file(FILE).await;
    call(&served, &[("quiet", "secret")]).await;
    call(&served, &[("quiet", "none")]).await;
    // All values under one threshold share a series.
    call(&served, &[("file", "img/private")]).await;
    call(&served, &[("elsewhere", "x")]).await;
    assert_eq!(sorted_rows(served.rls.detailed_limits()), []);
    assert_eq!(sorted_rows(served.rls.zero_limits()), [row("edge.quiet_none", "", [0, 1, 0])]);
}

/// Refunds were counted when spent; peeks are counted as rules count them.
#[tokio::test]
async fn refunds_are_not_counted() {
    let served = serve_file(FILE).await;
    for (hits, is_negative_hits) in [(1, false), (1, true), (0, false)] {
        let descriptor =
            RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..descriptor(&[("path", "/a")]) };
        served.call(request("edge", [descriptor])).await;
    }
    assert_eq!(sorted_rows(served.rls.detailed_limits()), [row("edge.path", "path=/a", [2, 0, 0])]);
}
