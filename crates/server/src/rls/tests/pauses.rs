//! Answers that are held until a leaky bucket lets go.

use std::time::Duration;

use sluicegate_engine::{Limit, Rate};
use tokio::time::timeout;
use tonic::Request;

use super::support::{HANGING, Served, descriptor, header, metadata, request, rule, serve};
use crate::rls::proto::{Code, RateLimitRequest, RateLimitResponse};

/// One every ten seconds, five in line.
async fn served() -> Served {
    let rate = Rate::new(1, Duration::from_secs(10)).unwrap();
    serve([rule("paced", Limit::leaky_bucket(rate, 5).unwrap())]).await
}

fn asked() -> RateLimitRequest {
    request("edge", [descriptor(&[("a", "b")])])
}

/// Waits until somebody waits for the clock.
async fn until_held(served: &Served, how_many: usize) {
    let held = async {
        while served.clock.alarms() < how_many {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANGING, held).await.unwrap();
}

async fn within(served: &Served, deadline: Duration) -> RateLimitResponse {
    let mut asked = Request::new(asked());
    asked.set_timeout(deadline);
    served.client.clone().should_rate_limit(asked).await.unwrap().into_inner()
}

#[tokio::test]
async fn an_answer_is_held_for_its_pause() {
    let served = served().await;
    assert_eq!(served.ask(asked()).await.overall_code(), Code::Ok);
    let mut client = served.client.clone();
    let second = tokio::spawn(async move { client.should_rate_limit(asked()).await });
    until_held(&served, 1).await;
    served.clock.advance(Duration::from_millis(9_999));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    served.clock.advance(Duration::from_millis(1));
    let response = timeout(HANGING, second).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!((&metadata(&response)["verdict"], &metadata(&response)["wait_ms"]), (&"wait".into(), &10_000.into()));
}

#[tokio::test]
async fn who_cannot_wait_so_long_is_refused_at_once_and_takes_no_place() {
    let served = served().await;
    assert_eq!(served.ask(asked()).await.overall_code(), Code::Ok);
    for _ in 0..8 {
        let late = within(&served, Duration::from_secs(9)).await;
        assert_eq!(late.overall_code(), Code::OverLimit);
        assert_eq!(late.statuses[0].code(), Code::OverLimit);
        assert_eq!(header(&late, "retry-after"), Some("10"));
    }
    // The first place in line is still free.
    let mut client = served.client.clone();
    let next = tokio::spawn(async move { client.should_rate_limit(asked()).await });
    until_held(&served, 1).await;
    served.clock.advance(Duration::from_secs(10));
    assert!(timeout(HANGING, next).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_place() {
    let served = served().await;
    assert_eq!(served.ask(asked()).await.overall_code(), Code::Ok);
    for _ in 0..8 {
        let mut client = served.client.clone();
        let waiting = tokio::spawn(async move { client.should_rate_limit(asked()).await });
        until_held(&served, 1).await;
        waiting.abort();
        let gone = async {
            while served.clock.alarms() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(HANGING, gone).await.unwrap();
    }
    let mut client = served.client.clone();
    let next = tokio::spawn(async move { client.should_rate_limit(asked()).await });
    until_held(&served, 1).await;
    served.clock.advance(Duration::from_secs(10));
    let response = timeout(HANGING, next).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(response.overall_code(), Code::Ok);
}

/// Whoever only looks takes no place, and need not wait for one.
#[tokio::test]
async fn a_look_is_answered_at_once() {
    let served = served().await;
    assert_eq!(served.ask(asked()).await.overall_code(), Code::Ok);
    let mut look = asked();
    look.descriptors[0].hits_addend = Some(0);
    let response = timeout(HANGING, served.ask(look)).await.unwrap();
    assert_eq!(response.overall_code(), Code::Ok);
    assert_eq!(served.clock.alarms(), 0);
}

#[tokio::test]
async fn a_full_line_is_refused() {
    let served = served().await;
    let mut waiting = Vec::new();
    assert_eq!(served.ask(asked()).await.overall_code(), Code::Ok);
    loop {
        let mut client = served.client.clone();
        waiting.push(tokio::spawn(async move { client.should_rate_limit(asked()).await }));
        let answered = async {
            while served.clock.alarms() < waiting.len() && !waiting.last().unwrap().is_finished() {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANGING, answered).await.unwrap();
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
        assert_eq!(timeout(HANGING, waiting).await.unwrap().unwrap().unwrap().into_inner().overall_code(), Code::Ok);
    }
}
