//! Life cycle of reservations and permits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LOCAL, TestApi, json as call, plain};
use crate::http::api::ReservationCounts;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

async fn reserve(subject: &TestApi, cost: u64) -> String {
    let body = format!(r#"{{"service":"llm","cost":{cost},"ttl":"10s"}}"#);
    let reserved = subject.post("/v1/reserve", &body).await;
    assert_eq!(reserved.status, 200);
    let reserved = reserved.json();
    assert_eq!((&reserved["allowed"], &reserved["expires_in_ms"]), (&json!(true), &json!(10_000)));
    text(&reserved["reservation"]).to_owned()
}

/// Remaining quota of the rules with a fixed and with an estimated cost.
async fn remaining(subject: &TestApi) -> (u64, u64) {
    let explained = subject.sluice.explain(&sluicegate_engine::rule::Request::new("", "").with_service("llm"));
    (subject.remaining("tokens").await, explained.rules[1].decision.unwrap().status.remaining)
}

#[tokio::test]
async fn a_reservation_is_settled_to_its_actual_cost() {
    let subject = TestApi::new();
    let (less, more, never) =
        (reserve(&subject, 300).await, reserve(&subject, 300).await, reserve(&subject, 300).await);
    assert_eq!(remaining(&subject).await, (100, 1_700));
    assert_eq!(subject.api.reservation_counts().active, 3);
    for (body, settled, now) in [
        (format!(r#"{{"reservation":"{less}","actual":50}}"#), json!(50), (350, 1_750)),
        (format!(r#"{{"reservation":"{more}","actual":400}}"#), json!(400), (250, 1_450)),
        (format!(r#"{{"reservation":"{never}","cancel":true}}"#), json!(null), (550, 1_550)),
    ] {
        let response = subject.post("/v1/settle", &body).await;
        assert_eq!((response.status.as_u16(), response.json()), (200, json!({"settled": true, "actual": settled})));
        assert_eq!(remaining(&subject).await, now, "{body}");
        let again = subject.post("/v1/settle", &body).await.problem();
        assert_eq!((again.0, again.1.as_str()), (404, "unknown-reservation"), "settled only once");
        assert_eq!(remaining(&subject).await, now, "{body}");
    }
    assert_eq!(subject.api.reservation_counts(), ReservationCounts { active: 0, expired: 0 });
}

#[tokio::test]
async fn an_expired_reservation_keeps_its_estimate() {
    let subject = TestApi::new();
    let id = reserve(&subject, 300).await;
    subject.expire().await;
    subject.clock.advance(Duration::from_nanos(9_999_999_999));
    subject.expire().await;
    assert_eq!(subject.api.reservation_counts().active, 1);
    subject.clock.advance(Duration::from_nanos(1));
    // Expired, even before the timer runs.
    let settle = format!(r#"{{"reservation":"{id}","actual":1}}"#);
    assert_eq!(subject.post("/v1/settle", &settle).await.problem().0, 404);
    subject.expire().await;
    assert_eq!(subject.api.reservation_counts(), ReservationCounts { active: 0, expired: 1 });
    assert_eq!(remaining(&subject).await, (700, 1_900), "the estimate stays consumed");
}

#[tokio::test]
async fn a_refused_reservation_holds_nothing() {
    let subject = TestApi::new();
    let refused = subject.post("/v1/reserve", r#"{"service":"llm","cost":5000}"#).await;
    assert_eq!(refused.status, 200);
    let refused = refused.json();
    assert_eq!((&refused["reservation"], &refused["expires_in_ms"]), (&json!(null), &json!(null)));
    assert_eq!((&refused["allowed"], &refused["verdict"]), (&json!(false), &json!("never")));
    assert_eq!(subject.api.reservation_counts().active, 0);
}

async fn acquire(subject: &TestApi, extra: &str) -> super::ApiResponse {
    subject.post("/v1/permits", &format!(r#"{{"rule":"jobs","attributes":{{"account":"a"}}{extra}}}"#)).await
}

#[tokio::test]
async fn a_permit_is_acquired_renewed_and_released() {
    let subject = TestApi::new();
    let first = acquire(&subject, r#","ttl":5000"#).await;
    assert_eq!(first.status, 201);
    let id = text(&first.json()["permit"]).to_owned();
    let path = format!("/v1/permits/{id}");
    assert_eq!(first.header("location"), Some(path.as_str()));
    assert_eq!(first.json()["expires_in_ms"], 5_000);
    assert_eq!(acquire(&subject, "").await.json()["expires_in_ms"], 30_000);

    let full = acquire(&subject, "").await;
    assert_eq!((full.status.as_u16(), &full.json()["permit"]), (200, &json!(null)));
    assert_eq!((&full.json()["allowed"], &full.json()["verdict"]), (&json!(false), &json!("denied")));

    for (renewal, ttl) in [(plain("PUT", &path), 5_000), (call("PUT", &path, r#"{"ttl":"7s"}"#), 7_000)] {
        subject.clock.advance(Duration::from_secs(4));
        subject.expire().await;
        let renewed = subject.call(renewal).await;
        assert_eq!((renewed.status.as_u16(), renewed.json()), (200, json!({"permit": id, "expires_in_ms": ttl})));
    }
    assert_eq!(subject.call(call("PUT", &path, r#"{"ttl":0}"#)).await.problem().3.as_deref(), Some("/ttl"));
    // A permit is not a reservation.
    let settle = format!(r#"{{"reservation":"{id}","cancel":true}}"#);
    assert_eq!(subject.post("/v1/settle", &settle).await.problem().0, 404);

    assert_eq!(subject.remaining("jobs").await, 0);
    let released = subject.call(plain("DELETE", &path)).await;
    assert_eq!((released.status.as_u16(), released.body.len()), (204, 0));
    assert_eq!(subject.remaining("jobs").await, 1);
    for gone in [plain("DELETE", &path), plain("PUT", &path), plain("DELETE", "/v1/permits/nonsense")] {
        assert_eq!(subject.call(gone).await.problem().1, "unknown-reservation");
    }
    assert_eq!(subject.remaining("jobs").await, 1);
}

#[tokio::test]
async fn an_expired_permit_is_released() {
    let subject = TestApi::new();
    let id = text(&acquire(&subject, r#","ttl":"2s""#).await.json()["permit"]).to_owned();
    acquire(&subject, r#","ttl":"1s""#).await;
    let expiring = tokio::spawn({
        let api = subject.api.clone();
        async move { api.expire().await }
    });
    tokio::task::yield_now().await;
    for (active, free) in [(1, 1), (0, 2)] {
        subject.clock.advance(Duration::from_secs(1));
        while subject.api.reservation_counts().active > active {
            tokio::task::yield_now().await;
        }
        assert_eq!(subject.remaining("jobs").await, free);
    }
    // Earlier than the expiry the timer waits for.
    acquire(&subject, r#","ttl":"1h""#).await;
    tokio::task::yield_now().await;
    acquire(&subject, r#","ttl":"1s""#).await;
    tokio::task::yield_now().await;
    subject.clock.advance(Duration::from_secs(1));
    while subject.api.reservation_counts().active > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(subject.call(plain("PUT", &format!("/v1/permits/{id}"))).await.problem().0, 404);
    expiring.abort();
}

#[tokio::test]
async fn a_waiting_client_gets_the_released_permit() {
    let subject = TestApi::new();
    let id = text(&acquire(&subject, "").await.json()["permit"]).to_owned();
    acquire(&subject, "").await;
    let mut waiting = pin!(acquire(&subject, r#","wait":"5s""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    assert_eq!(subject.call(plain("DELETE", &format!("/v1/permits/{id}"))).await.status, 204);
    let response = waiting.await;
    assert_eq!((response.status.as_u16(), &response.json()["allowed"]), (201, &json!(true)));
    assert_eq!(subject.remaining("jobs").await, 0);
}

#[tokio::test]
async fn a_wait_that_times_out_is_refused() {
    let subject = TestApi::new();
    acquire(&subject, "").await;
    acquire(&subject, "").await;
    let mut waiting = pin!(acquire(&subject, r#","wait":"3s""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    assert_eq!(subject.api.reservation_counts().active, 3, "a waiting request holds a slot");
    subject.clock.advance(Duration::from_secs(3));
    let response = waiting.await;
    assert_eq!((response.status.as_u16(), &response.json()["verdict"]), (200, &json!("denied")));
    assert_eq!((&response.json()["rule"], &response.json()["permit"]), (&json!("jobs"), &json!(null)));
    assert_eq!(subject.api.reservation_counts().active, 2);
    // The rule's own queue timeout applies as well.
    let mut waiting = pin!(acquire(&subject, r#","wait":"1h""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    subject.clock.advance(Duration::from_secs(10));
    assert_eq!(waiting.await.json()["allowed"], false);
}

#[tokio::test]
async fn a_dropped_request_leaves_the_queue() {
    let subject = TestApi::new();
    let id = text(&acquire(&subject, "").await.json()["permit"]).to_owned();
    acquire(&subject, "").await;
    {
        let request = call("POST", "/v1/permits", r#"{"rule":"jobs","attributes":{"account":"a"},"wait":"5s"}"#);
        let mut waiting = pin!(subject.api.handle(request, LOCAL.parse().unwrap()));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    }
    assert_eq!(subject.api.reservation_counts().active, 2);
    subject.call(plain("DELETE", &format!("/v1/permits/{id}"))).await;
    assert_eq!(acquire(&subject, "").await.status, 201, "the queue is empty");
}

#[tokio::test]
async fn the_store_capacity_is_enforced() {
    let subject = TestApi::new();
    for _ in 0..3 {
        reserve(&subject, 10).await;
    }
    let before = remaining(&subject).await;
    for path in ["/v1/reserve", "/v1/permits"] {
        let full = subject.post(path, r#"{"service":"llm","cost":10}"#).await;
        let problem = full.problem();
        assert_eq!((problem.0, problem.1.as_str(), full.header("retry-after")), (503, "full", Some("1")));
        assert!(problem.2.contains("3 reservations and permits are held"), "{}", problem.2);
    }
    assert_eq!(remaining(&subject).await, before, "no quota is consumed");
    subject.clock.advance(Duration::from_secs(10));
    subject.expire().await;
    assert_eq!(subject.api.reservation_counts(), ReservationCounts { active: 0, expired: 3 });
    reserve(&subject, 10).await;
}

#[test]
fn concurrent_acquire_and_release() {
    let settings = sluicegate_config::settings::Server { max_reservations: 50, ..Default::default() };
    let subject = TestApi::with_settings(&settings);
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..200 {
                        let permit = subject.post("/v1/permits", r#"{"service":"nobody"}"#).await;
                        if permit.status == 201 {
                            let path = permit.header("location").unwrap().to_owned();
                            assert_eq!(subject.call(plain("DELETE", &path)).await.status, 204);
                        }
                    }
                });
            });
        }
    });
    assert_eq!(subject.api.reservation_counts(), ReservationCounts { active: 0, expired: 0 });
}
