//! All adapters behave alike: the same rule and the same requests give the same verdicts and waits through a plain call,
//! the attribute, the server layer and the client layer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use proptest::prelude::*;
use sluicegate::clock::ManualClock;
use sluicegate::rule::{self, Attribute, AttributeMap, Ban, Cost, Direction, Expr, Lists, Mode, Queue, Rule};
use sluicegate::tower::LimitLayer;
use sluicegate::tower::client::{self, ClientLimit};
use sluicegate::{Limit, Limited, Rate, Sluice, Verdict, limit};
use tower::{Layer, ServiceExt, service_fn};

/// Result of a request, as every adapter can report it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdapterResult {
    Admitted,
    /// With the seconds to wait, rounded up; `None` if waiting does not help.
    Refused(Option<u64>),
}

/// Results in order: the index of the request, and its result or `None` while it waits.
type Transcript = Vec<(usize, Option<AdapterResult>)>;

/// A request in flight through an adapter.
type PendingCheck = Pin<Box<dyn Future<Output = AdapterResult>>>;

/// Creates a function that sends the request of an account through an adapter.
type Adapter = fn(Sluice) -> Box<dyn Fn(&'static str) -> PendingCheck>;

const ACCOUNTS: [&str; 3] = ["alice", "bob", ""];

fn seconds(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Denied { retry_after: Some(wait) } => Some(wait.as_nanos().div_ceil(1_000_000_000).max(1) as u64),
        Verdict::Denied { retry_after: None } => Some(1),
        Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
    }
}

fn plain(sluice: Sluice) -> Box<dyn Fn(&'static str) -> PendingCheck> {
    Box::new(move |account| {
        let attributes = AttributeMap::new().with(Attribute::custom("account"), account);
        let request = rule::Request::new("POST", "/orders").with_attributes(&attributes);
        let admission = sluice.admit(&request);
        Box::pin(async move {
            let outcome = admission.await;
            if outcome.is_admitted() {
                AdapterResult::Admitted
            } else {
                AdapterResult::Refused(seconds(outcome.verdict()))
            }
        })
    })
}

#[limit(rule = "orders", sluice = sluice, with("account" = account))]
async fn order(sluice: Sluice, account: &str) -> Result<(), Limited> {
    Ok(())
}

fn attribute(sluice: Sluice) -> Box<dyn Fn(&'static str) -> PendingCheck> {
    Box::new(move |account| {
        let sluice = sluice.clone();
        Box::pin(async move {
            match order(sluice, account).await {
                Ok(()) => AdapterResult::Admitted,
                Err(limited) if limited.is_permanent() => AdapterResult::Refused(None),
                Err(limited) => AdapterResult::Refused(seconds(Verdict::Denied { retry_after: limited.retry_after() })),
            }
        })
    })
}

fn request(account: &str) -> Request<String> {
    Request::post("http://shop.example/orders").header("x-account", account).body(String::new()).unwrap()
}

fn layer(sluice: Sluice) -> Box<dyn Fn(&'static str) -> PendingCheck> {
    let sources = sluicegate::http::attributes::AttributeSources::builder()
        .with("account", |head| head.headers.get("x-account")?.to_str().ok().map(Into::into))
        .build();
    let layer = LimitLayer::builder(sluice).attributes(sources.unwrap()).build();
    let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    Box::new(move |account| {
        let response = service.clone().oneshot(request(account));
        Box::pin(async move {
            let response = response.await.unwrap();
            match response.status().as_u16() {
                200 => AdapterResult::Admitted,
                status => {
                    assert!([403, 429].contains(&status));
                    let wait = response.headers().get("retry-after");
                    AdapterResult::Refused(wait.map(|wait| wait.to_str().unwrap().parse().unwrap()))
                }
            }
        })
    })
}

fn client_limit(sluice: Sluice) -> Box<dyn Fn(&'static str) -> PendingCheck> {
    // The same rule, for the other side.
    let rules = sluice.rules().into_iter().map(|rule| Rule { direction: Direction::Outbound, ..rule }).collect();
    sluice.replace(rules, Lists::default()).unwrap();
    let outgoing = ClientLimit::builder(sluice).service("shop").attributes(|call, attributes| {
        if let Some(account) = call.headers.get("x-account") {
            attributes.insert(Attribute::custom("account"), account.to_str().unwrap());
        }
    });
    let service = outgoing
        .build()
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(http_body(Bytes::new())))));
    Box::new(move |account| {
        let response = service.clone().oneshot(request(account));
        Box::pin(async move {
            match response.await {
                Ok(_) => AdapterResult::Admitted,
                Err(error) => AdapterResult::Refused(seconds(client::Limited::find(&*error).unwrap().verdict)),
            }
        })
    })
}

fn http_body(bytes: Bytes) -> axum::body::Body {
    axum::body::Body::from(bytes)
}

/// Rules of every kind, all with the same name.
fn rules() -> Vec<(&'static str, Rule)> {
    let second = Duration::from_secs(1);
    let rate = |count| Rate::per_second(count).unwrap();
    let of =
        |limits: Vec<Limit>| Rule { key: vec![Attribute::custom("account").into()], ..Rule::new("orders", limits) };
    let one = |limit: Limit| of(vec![limit]);
    let queued = |mut rule: Rule, max_waiting| {
        rule.on_limit.queue = Some(Queue { max_wait: 2 * second, max_waiting });
        rule
    };
    let bucket = Limit::token_bucket(rate(2), 3).unwrap();
    vec![
        ("token bucket", one(bucket)),
        ("leaky bucket", one(Limit::leaky_bucket(rate(2), 3).unwrap())),
        ("fixed window", one(Limit::fixed_window(3, second, sluicegate::algorithm::Alignment::Epoch).unwrap())),
        ("sliding window", one("3/1s".parse().unwrap())),
        ("interpolated window", one(Limit::interpolated_window(3, second).unwrap())),
        ("sliding log", one(Limit::sliding_log(3, second).unwrap())),
        ("warm up", one(Limit::warm_up(rate(2), second, 3).unwrap())),
        ("several", of(vec![bucket, "4/3s".parse().unwrap()])),
        ("for all", Rule::new("orders", [bucket])),
        ("costly", Rule { cost: Cost::Fixed(2), ..one(bucket) }),
        ("never", Rule { cost: Cost::Fixed(9), ..one(bucket) }),
        ("shadow", Rule { mode: Mode::Shadow, ..one(bucket) }),
        ("banning", Rule { ban: Some(Ban { after: 2, within: 3 * second, duration: 2 * second }), ..one(bucket) }),
        ("but for bob", Rule { when: Some(Expr::parse("account != 'bob'").unwrap()), ..one(bucket) }),
        ("queued", queued(one(bucket), 2)),
        ("queued, several", queued(of(vec![bucket, "4/3s".parse().unwrap()]), 3)),
    ]
}

/// What happens next.
#[derive(Clone, Debug)]
enum AdapterStep {
    Check(usize),
    Advance(u64),
    Cancel,
}

fn steps() -> impl Strategy<Value = Vec<AdapterStep>> {
    let step = prop_oneof![
        6 => (0..ACCOUNTS.len()).prop_map(AdapterStep::Check),
        3 => (0_u64..1_500).prop_map(AdapterStep::Advance),
        1 => Just(AdapterStep::Cancel),
    ];
    prop::collection::vec(step, 1..40)
}

/// Runs the steps through an adapter.
fn run_steps(rule: &Rule, adapter: Adapter, steps: &[AdapterStep]) -> Transcript {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rule(rule.clone()).clock(clock.clone()).memory(1 << 16).build().unwrap();
    let check = adapter(sluice.clone());
    let mut transcript = Transcript::new();
    let mut waiting: Vec<(usize, PendingCheck)> = Vec::new();
    let poll = |pending: &mut PendingCheck| pending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for (number, step) in steps.iter().enumerate() {
        match step {
            AdapterStep::Check(account) => {
                let mut pending = check(ACCOUNTS[*account]);
                match poll(&mut pending) {
                    Poll::Ready(result) => transcript.push((number, Some(result))),
                    Poll::Pending => {
                        transcript.push((number, None));
                        waiting.push((number, pending));
                    }
                }
            }
            AdapterStep::Advance(millis) => {
                clock.advance(Duration::from_millis(*millis));
                waiting.retain_mut(|(number, pending)| match poll(pending) {
                    Poll::Ready(result) => {
                        transcript.push((*number, Some(result)));
                        false
                    }
                    Poll::Pending => true,
                });
            }
            AdapterStep::Cancel => drop(waiting.pop()),
        }
    }
    drop(waiting);
    assert_eq!(sluice.counts()[0].waiting, 0, "the queue is empty");
    assert_eq!(clock.pending_timers(), 0, "no timer is left");
    transcript
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_adapter_gives_the_same_verdicts_and_waits(steps in steps()) {
        for (name, rule) in rules() {
            let expected = run_steps(&rule, plain, &steps);
            prop_assert_eq!(&run_steps(&rule, attribute, &steps), &expected, "attribute, {}", name);
            prop_assert_eq!(&run_steps(&rule, layer, &steps), &expected, "layer, {}", name);
            prop_assert_eq!(&run_steps(&rule, client_limit, &steps), &expected, "client, {}", name);
        }
    }
}

#[test]
fn the_table_of_rules_admits_refuses_and_waits() {
    // Otherwise the property above would compare nothing.
    let steps: Vec<AdapterStep> =
        (0..8).map(|_| AdapterStep::Check(0)).chain([AdapterStep::Advance(700), AdapterStep::Check(0)]).collect();
    for (name, rule) in rules() {
        let transcript = run_steps(&rule, plain, &steps);
        let admitted = transcript.iter().filter(|(_, result)| *result == Some(AdapterResult::Admitted)).count();
        match name {
            "never" => assert_eq!(transcript[0].1, Some(AdapterResult::Refused(None))),
            "shadow" => assert_eq!(admitted, 9),
            _ => assert!((1..9).contains(&admitted), "{name}: {transcript:?}"),
        }
        let waits = transcript.iter().any(|(_, result)| result.is_none());
        assert_eq!(waits, ["leaky bucket", "queued", "queued, several"].contains(&name), "{name}");
    }
}
