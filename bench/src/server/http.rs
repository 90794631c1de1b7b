//! Decisions over HTTP: `http-check`.

use serde_json::Value;

use super::{Empty, prove_all_were_let_in};
use crate::programs::client::Client;
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::sluicegate;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const PATH: &str = "/v1/check";
const ASKED: &str = r#"{"rule":"per-ip","client_ip":"203.0.113.9"}"#;
/// The same, and nothing is taken.
const LOOKED: &str = r#"{"rule":"per-ip","client_ip":"203.0.113.9","cost":0}"#;

pub(crate) fn checked(scale: Scale) -> Vec<Row> {
    let ours = sluicegate::run(|port| include_str!("http.yaml").replace("PORT", &port.to_string()));
    let empty = Empty::Http.start();
    let answers = [&ours, &empty].map(|side| ask(side, ASKED));
    assert_eq!(answers[0], answers[1], "the peer answers what ours answers to the first");
    for side in [&ours, &empty] {
        // Not counted: the first requests are slower.
        wrk::post(side, PATH, ASKED, 1);
    }
    let (rounds, seconds) = if scale.quick { (3, 1) } else { (5, 4) };
    let [mine, theirs] = median_of(rounds, [&ours, &empty], |side| {
        let before = left(&ours);
        let told = wrk::post(side, PATH, ASKED, seconds);
        assert!(told.others == 0, "{} answered {} with an error", side.name(), told.others);
        let decided = if side.port() == ours.port() { told.requests } else { 0 };
        prove_all_were_let_in(before, left(&ours), decided);
        told.per_second
    });
    let peer = "empty axum handler";
    vec![Row { case: "http-check", peer, unit: Unit::PerSecond, ours: mine, theirs, goal: Goal::ratio(0.85) }]
}

fn ask(side: &Program, body: &str) -> Value {
    let length = body.len();
    let head = "Host: bench.test\r\nContent-Type: application/json";
    let request = format!("POST {PATH} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    let answer = Client::connect(side.port()).ask(request.as_bytes());
    let read = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200);
    read.unwrap_or_else(|| panic!("{}: {answer:?}\n{}", side.name(), side.said()))
}

/// What is left of the limit.
fn left(ours: &Program) -> u64 {
    let answer = ask(ours, LOOKED);
    answer["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("what is left: {answer}"))
}
