//! Responses delayed by a leaky bucket.

use std::time::Duration;

use sluicegate_engine::{Limit, Rate};
use tokio::time::timeout;
use tonic::Request;

use super::support::{RlsTestServer, TEST_TIMEOUT, descriptor, header, metadata, request, rule, serve};
use crate::rls::proto::{Code, RateLimitRequest, RateLimitResponse};

/// One per ten seconds, a queue of five.
async fn served() -> RlsTestServer {
    let rate = Rate::new(1, Duration::from_secs(10)).unwrap();
    serve([rule("paced", Limit::leaky_bucket(rate, 5).unwrap())]).await
}

fn path_request() -> RateLimitRequest {
    request("edge", [descriptor(&[("a", "b")])])
}

/// Waits until this many tasks sleep on the clock.
async fn wait_for_timers(served: &RlsTestServer, count: usize) {
    let sleeping = async {
        while served.clock.pending_timers() < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, sleeping).await.unwrap();
}

async fn call_with_deadline(served: &RlsTestServer, deadline: Duration) -> RateLimitResponse {
    let mut call = Request::new(path_request());
    call.set_timeout(deadline);
    served.client.clone().should_rate_limit(call).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_response_is_delayed() {
    let served = served().await;
    assert_eq!(served.call(path_request()).await.overall_code(), Code::Ok);
    let mut client = served.client.clone();
    let second = tokio::spawn(async move { client.should_rate_limit(path_request()).await });
    wait_for_timers(&served, 1).await;
    served.clock.advance(Duration::from_millis(9_999));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    served.clock.advance(Duration::from_millis(1));
    let response = timeout(TEST_TIMEOUT, second).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!((&metadata(&response)["verdict"], &metadata(&response)["wait_ms"]), (&"wait".into(), &10_000.into()));
}

#[tokio::test]
async fn a_short_deadline_is_refused_at_once_and_takes_no_slot() {
    let served = served().await;
    assert_eq!(served.call(path_request()).await.overall_code(), Code::Ok);
    for _ in 0..8 {
        let refused = call_with_deadline(&served, Duration::from_secs(9)).await;
        assert_eq!(refused.overall_code(), Code::OverLimit);
        assert_eq!(refused.statuses[0].code(), Code::OverLimit);
        assert_eq!(header(&refused, "retry-after"), Some("10"));
    }
    // The first queue slot is still free.
    let mut client = served.client.clone();
    let next = tokio::spawn(async move { client.should_rate_limit(path_request()).await });
    wait_for_timers(&served, 1).await;
    served.clock.advance(Duration::from_secs(10));
    assert!(timeout(TEST_TIMEOUT, next).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn a_disconnected_client_frees_its_queue_slot() {
    let served = served().await;
    assert_eq!(served.call(path_request()).await.overall_code(), Code::Ok);
    for _ in 0..8 {
        let mut client = served.client.clone();
        let waiting = tokio::spawn(async move { client.should_rate_limit(path_request()).await });
        wait_for_timers(&served, 1).await;
        waiting.abort();
        let released = async {
            while served.clock.pending_timers() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TEST_TIMEOUT, released).await.unwrap();
    }
    let mut client = served.client.clone();
    let next = tokio::spawn(async move { client.should_rate_limit(path_request()).await });
    wait_for_timers(&served, 1).await;
    served.clock.advance(Duration::from_secs(10));
    let response = timeout(TEST_TIMEOUT, next).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(response.overall_code(), Code::Ok);
}

/// A peek takes no slot and does not wait.
#[tokio::test]
async fn a_peek_is_not_delayed() {
    let served = served().await;
    assert_eq!(served.call(path_request()).await.overall_code(), Code::Ok);
    let mut peek = path_request();
    peek.descriptors[0].hits_addend = Some(0);
    let response = timeout(TEST_TIMEOUT, served.call(peek)).await.unwrap();
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(served.clock.pending_timers(), 0);
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let served = served().await;
    let mut waiting = Vec::new();
    assert_eq!(served.call(path_request()).await.overall_code(), Code::Ok);
    loop {
        let mut client = served.client.clone();
        waiting.push(tokio::spawn(async move { client.should_rate_limit(path_request()).await }));
        let queued_or_refused = async {
            while served.clock.pending_timers() < waiting.len() && !waiting.last().unwrap().is_finished() {
                tokio::task::yield_now().await;
            }
        };
        timeout(TEST_TIMEOUT, queued_or_refused).await.unwrap();
        if waiting.last().unwrap().is_finished() {
            break;
        }
        assert!(waiting.len() < 10);
    }
    let refused = waiting.pop().unwrap().await.unwrap().unwrap().into_inner();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert!(!waiting.is_empty());
    served.clock.advance(Duration::from_secs(60));
    for waiting in waiting {
        assert_eq!(
            timeout(TEST_TIMEOUT, waiting).await.unwrap().unwrap().unwrap().into_inner().overall_code(),
            Code::Ok
        );
    }
}
