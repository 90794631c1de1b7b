//! One behaviour, whichever way it is asked for: the same rule and the same requests give the same verdicts
//! and the same waits through a plain call, the attribute, the layer and around outgoing calls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use proptest::prelude::*;
use sluicegate::clock::ManualClock;
use sluicegate::rule::{self, Attribute, AttributeMap, Ban, Cost, Expr, Lists, Mode, Queue, Rule, Side};
use sluicegate::tower::LimitLayer;
use sluicegate::tower::outgoing::{self, Outgoing};
use sluicegate::{Limit, Limited, Rate, Sluice, Verdict, limit};
use tower::{Layer, ServiceExt, service_fn};

/// How a request fared, as far as every adapter can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fared {
    Admitted,
    /// With the seconds to wait, rounded up; `None` if waiting does not help.
    Refused(Option<u64>),
}

/// What was seen, in order: the number of the request and how it fared, or that it waits.
type Transcript = Vec<(usize, Option<Fared>)>;

/// A request through an adapter, under way.
type Asked = Pin<Box<dyn Future<Output = Fared>>>;

/// A way to ask: makes of a sluice a function that takes an account's request.
type Adapter = fn(Sluice) -> Box<dyn Fn(&'static str) -> Asked>;

const ACCOUNTS: [&str; 3] = ["alice", "bob", ""];

fn seconds(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Denied { retry_after: Some(wait) } => Some(wait.as_nanos().div_ceil(1_000_000_000).max(1) as u64),
        Verdict::Denied { retry_after: None } => Some(1),
        Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
    }
}

fn plain(sluice: Sluice) -> Box<dyn Fn(&'static str) -> Asked> {
    Box::new(move |account| {
        let attributes = AttributeMap::new().with(Attribute::custom("account"), account);
        let request = rule::Request::new("POST", "/orders").with_attributes(&attributes);
        let admission = sluice.admit(&request);
        Box::pin(async move {
            let outcome = admission.await;
            if outcome.is_admitted() { Fared::Admitted } else { Fared::Refused(seconds(outcome.verdict())) }
        })
    })
}

#[limit(rule = "orders", sluice = sluice, with("account" = account))]
async fn order(sluice: Sluice, account: &str) -> Result<(), Limited> {
    Ok(())
}

fn attribute(sluice: Sluice) -> Box<dyn Fn(&'static str) -> Asked> {
    Box::new(move |account| {
        let sluice = sluice.clone();
        Box::pin(async move {
            match order(sluice, account).await {
                Ok(()) => Fared::Admitted,
                Err(limited) if limited.is_for_ever() => Fared::Refused(None),
                Err(limited) => Fared::Refused(seconds(Verdict::Denied { retry_after: limited.retry_after() })),
            }
        })
    })
}

fn request(account: &str) -> Request<String> {
    Request::post("http://shop.example/orders").header("x-account", account).body(String::new()).unwrap()
}

fn layer(sluice: Sluice) -> Box<dyn Fn(&'static str) -> Asked> {
    let sources = sluicegate::http::attributes::AttributeSources::builder()
        .with("account", |head| head.headers.get("x-account")?.to_str().ok().map(Into::into))
        .build();
    let layer = LimitLayer::builder(sluice).attributes(sources.unwrap()).build();
    let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    Box::new(move |account| {
        let answer = service.clone().oneshot(request(account));
        Box::pin(async move {
            let answer = answer.await.unwrap();
            match answer.status().as_u16() {
                200 => Fared::Admitted,
                status => {
                    assert!([403, 429].contains(&status));
                    let wait = answer.headers().get("retry-after");
                    Fared::Refused(wait.map(|wait| wait.to_str().unwrap().parse().unwrap()))
                }
            }
        })
    })
}

fn outgoing(sluice: Sluice) -> Box<dyn Fn(&'static str) -> Asked> {
    // The same rule, for the other side.
    let rules = sluice.rules().into_iter().map(|rule| Rule { side: Side::Outbound, ..rule }).collect();
    sluice.replace(rules, Lists::default()).unwrap();
    let outgoing = Outgoing::builder(sluice).service("shop").attributes(|call, attributes| {
        if let Some(account) = call.headers.get("x-account") {
            attributes.insert(Attribute::custom("account"), account.to_str().unwrap());
        }
    });
    let service = outgoing
        .build()
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(http_body(Bytes::new())))));
    Box::new(move |account| {
        let answer = service.clone().oneshot(request(account));
        Box::pin(async move {
            match answer.await {
                Ok(_) => Fared::Admitted,
                Err(error) => Fared::Refused(seconds(outgoing::Limited::find(&*error).unwrap().verdict)),
            }
        })
    })
}

fn http_body(bytes: Bytes) -> axum::body::Body {
    axum::body::Body::from(bytes)
}

/// Rules of every kind, all named alike.
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
        ("banning", Rule { ban: Some(Ban { after: 2, within: 3 * second, lasting: 2 * second }), ..one(bucket) }),
        ("but for bob", Rule { when: Some(Expr::parse("account != 'bob'").unwrap()), ..one(bucket) }),
        ("queued", queued(one(bucket), 2)),
        ("queued, several", queued(of(vec![bucket, "4/3s".parse().unwrap()]), 3)),
    ]
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Ask(usize),
    Advance(u64),
    GiveUp,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..ACCOUNTS.len()).prop_map(Step::Ask),
        3 => (0_u64..1_500).prop_map(Step::Advance),
        1 => Just(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..40)
}

/// Plays the steps through an adapter.
fn play(rule: &Rule, adapter: Adapter, steps: &[Step]) -> Transcript {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rule(rule.clone()).clock(clock.clone()).memory(1 << 16).build().unwrap();
    let ask = adapter(sluice.clone());
    let mut transcript = Transcript::new();
    let mut waiting: Vec<(usize, Asked)> = Vec::new();
    let poll = |asked: &mut Asked| asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Ask(account) => {
                let mut asked = ask(ACCOUNTS[*account]);
                match poll(&mut asked) {
                    Poll::Ready(fared) => transcript.push((number, Some(fared))),
                    Poll::Pending => {
                        transcript.push((number, None));
                        waiting.push((number, asked));
                    }
                }
            }
            Step::Advance(millis) => {
                clock.advance(Duration::from_millis(*millis));
                waiting.retain_mut(|(number, asked)| match poll(asked) {
                    Poll::Ready(fared) => {
                        transcript.push((*number, Some(fared)));
                        false
                    }
                    Poll::Pending => true,
                });
            }
            Step::GiveUp => drop(waiting.pop()),
        }
    }
    drop(waiting);
    assert_eq!(sluice.counts()[0].waiting, 0, "nobody is left in line");
    assert_eq!(clock.alarms(), 0, "no alarm is left");
    transcript
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_adapter_gives_the_same_verdicts_and_waits(steps in steps()) {
        for (name, rule) in rules() {
            let expected = play(&rule, plain, &steps);
            prop_assert_eq!(&play(&rule, attribute, &steps), &expected, "attribute, {}", name);
            prop_assert_eq!(&play(&rule, layer, &steps), &expected, "layer, {}", name);
            prop_assert_eq!(&play(&rule, outgoing, &steps), &expected, "outgoing, {}", name);
        }
    }
}

#[test]
fn the_table_of_rules_admits_refuses_and_waits() {
    // Otherwise the property above would compare nothing.
    let steps: Vec<Step> = (0..8).map(|_| Step::Ask(0)).chain([Step::Advance(700), Step::Ask(0)]).collect();
    for (name, rule) in rules() {
        let seen = play(&rule, plain, &steps);
        let admitted = seen.iter().filter(|(_, fared)| *fared == Some(Fared::Admitted)).count();
        match name {
            "never" => assert_eq!(seen[0].1, Some(Fared::Refused(None))),
            "shadow" => assert_eq!(admitted, 9),
            _ => assert!((1..9).contains(&admitted), "{name}: {seen:?}"),
        }
        let waits = seen.iter().any(|(_, fared)| fared.is_none());
        assert_eq!(waits, ["leaky bucket", "queued", "queued, several"].contains(&name), "{name}");
    }
}
