//! Reservations and permits, from their beginning to their end.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LOCAL, Subject, json as call, plain};
use crate::http::api::HeldCounts;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

async fn reserve(subject: &Subject, cost: u64) -> String {
    let body = format!(r#"{{"service":"llm","cost":{cost},"ttl":"10s"}}"#);
    let reserved = subject.post("/v1/reserve", &body).await;
    assert_eq!(reserved.status, 200);
    let reserved = reserved.json();
    assert_eq!((&reserved["allowed"], &reserved["expires_in_ms"]), (&json!(true), &json!(10_000)));
    text(&reserved["reservation"]).to_owned()
}

/// What the rules with a fixed cost and with an estimate have left.
async fn left(subject: &Subject) -> (u64, u64) {
    let told = subject.sluice.explain(&sluicegate_engine::rule::Request::new("", "").with_service("llm"));
    (subject.left("tokens").await, told.rules[1].decision.unwrap().status.remaining)
}

#[tokio::test]
async fn a_reservation_is_settled_to_what_it_really_cost() {
    let subject = Subject::new();
    let (less, more, never) =
        (reserve(&subject, 300).await, reserve(&subject, 300).await, reserve(&subject, 300).await);
    assert_eq!(left(&subject).await, (100, 1_700));
    assert_eq!(subject.api.held().held, 3);
    for (body, settled, now) in [
        (format!(r#"{{"reservation":"{less}","actual":50}}"#), json!(50), (350, 1_750)),
        (format!(r#"{{"reservation":"{more}","actual":400}}"#), json!(400), (250, 1_450)),
        (format!(r#"{{"reservation":"{never}","cancel":true}}"#), json!(null), (550, 1_550)),
    ] {
        let answer = subject.post("/v1/settle", &body).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"settled": true, "actual": settled})));
        assert_eq!(left(&subject).await, now, "{body}");
        let again = subject.post("/v1/settle", &body).await.problem();
        assert_eq!((again.0, again.1.as_str()), (404, "not-held"), "once only");
        assert_eq!(left(&subject).await, now, "{body}");
    }
    assert_eq!(subject.api.held(), HeldCounts { held: 0, expired: 0 });
}

#[tokio::test]
async fn what_is_not_settled_in_time_stands() {
    let subject = Subject::new();
    let id = reserve(&subject, 300).await;
    subject.expire().await;
    subject.clock.advance(Duration::from_nanos(9_999_999_999));
    subject.expire().await;
    assert_eq!(subject.api.held().held, 1);
    subject.clock.advance(Duration::from_nanos(1));
    // Its time is up, whether or not the timer has looked.
    let settle = format!(r#"{{"reservation":"{id}","actual":1}}"#);
    assert_eq!(subject.post("/v1/settle", &settle).await.problem().0, 404);
    subject.expire().await;
    assert_eq!(subject.api.held(), HeldCounts { held: 0, expired: 1 });
    assert_eq!(left(&subject).await, (700, 1_900), "and did not come back meanwhile");
}

#[tokio::test]
async fn a_refused_reservation_holds_nothing() {
    let subject = Subject::new();
    let refused = subject.post("/v1/reserve", r#"{"service":"llm","cost":5000}"#).await;
    assert_eq!(refused.status, 200);
    let refused = refused.json();
    assert_eq!((&refused["reservation"], &refused["expires_in_ms"]), (&json!(null), &json!(null)));
    assert_eq!((&refused["allowed"], &refused["verdict"]), (&json!(false), &json!("never")));
    assert_eq!(subject.api.held().held, 0);
}

async fn acquire(subject: &Subject, further: &str) -> super::Answer {
    subject.post("/v1/permits", &format!(r#"{{"rule":"jobs","attributes":{{"account":"a"}}{further}}}"#)).await
}

#[tokio::test]
async fn a_permit_is_acquired_renewed_and_released() {
    let subject = Subject::new();
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
    // A permit is no reservation.
    let settle = format!(r#"{{"reservation":"{id}","cancel":true}}"#);
    assert_eq!(subject.post("/v1/settle", &settle).await.problem().0, 404);

    assert_eq!(subject.left("jobs").await, 0);
    let released = subject.call(plain("DELETE", &path)).await;
    assert_eq!((released.status.as_u16(), released.body.len()), (204, 0));
    assert_eq!(subject.left("jobs").await, 1);
    for gone in [plain("DELETE", &path), plain("PUT", &path), plain("DELETE", "/v1/permits/nonsense")] {
        assert_eq!(subject.call(gone).await.problem().1, "not-held");
    }
    assert_eq!(subject.left("jobs").await, 1);
}

#[tokio::test]
async fn a_permit_whose_time_is_up_is_free_again() {
    let subject = Subject::new();
    let id = text(&acquire(&subject, r#","ttl":"2s""#).await.json()["permit"]).to_owned();
    acquire(&subject, r#","ttl":"1s""#).await;
    let expiring = tokio::spawn({
        let api = subject.api.clone();
        async move { api.expire().await }
    });
    tokio::task::yield_now().await;
    for (held, free) in [(1, 1), (0, 2)] {
        subject.clock.advance(Duration::from_secs(1));
        while subject.api.held().held > held {
            tokio::task::yield_now().await;
        }
        assert_eq!(subject.left("jobs").await, free);
    }
    // Sooner than what the timer waits for.
    acquire(&subject, r#","ttl":"1h""#).await;
    tokio::task::yield_now().await;
    acquire(&subject, r#","ttl":"1s""#).await;
    tokio::task::yield_now().await;
    subject.clock.advance(Duration::from_secs(1));
    while subject.api.held().held > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(subject.call(plain("PUT", &format!("/v1/permits/{id}"))).await.problem().0, 404);
    expiring.abort();
}

#[tokio::test]
async fn a_client_that_waits_gets_the_permit_that_is_released() {
    let subject = Subject::new();
    let id = text(&acquire(&subject, "").await.json()["permit"]).to_owned();
    acquire(&subject, "").await;
    let mut waiting = pin!(acquire(&subject, r#","wait":"5s""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    assert_eq!(subject.call(plain("DELETE", &format!("/v1/permits/{id}"))).await.status, 204);
    let answer = waiting.await;
    assert_eq!((answer.status.as_u16(), &answer.json()["allowed"]), (201, &json!(true)));
    assert_eq!(subject.left("jobs").await, 0);
}

#[tokio::test]
async fn a_client_that_has_waited_long_enough_is_told_so() {
    let subject = Subject::new();
    acquire(&subject, "").await;
    acquire(&subject, "").await;
    let mut waiting = pin!(acquire(&subject, r#","wait":"3s""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    assert_eq!(subject.api.held().held, 3, "who waits has a place");
    subject.clock.advance(Duration::from_secs(3));
    let answer = waiting.await;
    assert_eq!((answer.status.as_u16(), &answer.json()["verdict"]), (200, &json!("denied")));
    assert_eq!((&answer.json()["rule"], &answer.json()["permit"]), (&json!("jobs"), &json!(null)));
    assert_eq!(subject.api.held().held, 2);
    // And the rule's own bound holds, too.
    let mut waiting = pin!(acquire(&subject, r#","wait":"1h""#));
    assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    subject.clock.advance(Duration::from_secs(10));
    assert_eq!(waiting.await.json()["allowed"], false);
}

#[tokio::test]
async fn whoever_hangs_up_leaves_the_line() {
    let subject = Subject::new();
    let id = text(&acquire(&subject, "").await.json()["permit"]).to_owned();
    acquire(&subject, "").await;
    {
        let request = call("POST", "/v1/permits", r#"{"rule":"jobs","attributes":{"account":"a"},"wait":"5s"}"#);
        let mut waiting = pin!(subject.api.answer(request, LOCAL.parse().unwrap()));
        assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await.is_pending());
    }
    assert_eq!(subject.api.held().held, 2);
    subject.call(plain("DELETE", &format!("/v1/permits/{id}"))).await;
    assert_eq!(acquire(&subject, "").await.status, 201, "nobody stands before us");
}

#[tokio::test]
async fn no_more_is_held_than_was_agreed() {
    let subject = Subject::new();
    for _ in 0..3 {
        reserve(&subject, 10).await;
    }
    let before = left(&subject).await;
    for path in ["/v1/reserve", "/v1/permits"] {
        let full = subject.post(path, r#"{"service":"llm","cost":10}"#).await;
        let problem = full.problem();
        assert_eq!((problem.0, problem.1.as_str(), full.header("retry-after")), (503, "full", Some("1")));
        assert!(problem.2.contains("3 are held already"), "{}", problem.2);
    }
    assert_eq!(left(&subject).await, before, "nothing was taken");
    subject.clock.advance(Duration::from_secs(10));
    subject.expire().await;
    assert_eq!(subject.api.held(), HeldCounts { held: 0, expired: 3 });
    reserve(&subject, 10).await;
}

#[test]
fn many_threads_hold_and_let_go_at_once() {
    let settings = sluicegate_config::settings::Server { max_held: 50, ..Default::default() };
    let subject = Subject::with(&settings);
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..200 {
                        let held = subject.post("/v1/permits", r#"{"service":"nobody"}"#).await;
                        if held.status == 201 {
                            let path = held.header("location").unwrap().to_owned();
                            assert_eq!(subject.call(plain("DELETE", &path)).await.status, 204);
                        }
                    }
                });
            });
        }
    });
    assert_eq!(subject.api.held(), HeldCounts { held: 0, expired: 0 });
}
