//! Decisions over HTTP: `http-check`.

use serde_json::Value;

use super::{EmptyService, assert_all_admitted};
use crate::programs::client::Client;
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::sluicegate;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const PATH: &str = "/v1/check";
const CHECK_BODY: &str = r#"{"rule":"per-ip","client_ip":"203.0.113.9"}"#;
/// The same check with cost 0: consumes no quota.
const PEEK_BODY: &str = r#"{"rule":"per-ip","client_ip":"203.0.113.9","cost":0}"#;

pub(crate) fn checked(scale: Scale) -> Vec<Row> {
    let ours = sluicegate::run(|port, _| include_str!("http.yaml").replace("PORT", &port.to_string()));
    let empty = EmptyService::Http.start();
    let responses = [&ours, &empty].map(|program| check(program, CHECK_BODY));
    assert_eq!(responses[0], responses[1], "the peer returns Sluicegate's response to a first request");
    for program in [&ours, &empty] {
        // Warm-up.
        wrk::post(program, PATH, CHECK_BODY, 1);
    }
    let (rounds, seconds) = if scale.quick { (3, 1) } else { (5, 4) };
    let [our_rate, theirs] = median_of(rounds, [&ours, &empty], |program| {
        let before = remaining(&ours);
        let report = wrk::post(program, PATH, CHECK_BODY, seconds);
        assert!(report.non_2xx_3xx == 0, "{}: {} error responses", program.name(), report.non_2xx_3xx);
        let decided = if program.port() == ours.port() { report.requests } else { 0 };
        assert_all_admitted(before, remaining(&ours), decided);
        report.per_second
    });
    let peer = "empty axum handler";
    vec![Row { case: "http-check", peer, unit: Unit::PerSecond, ours: our_rate, theirs, goal: Goal::ratio(0.85) }]
}

fn check(program: &Program, body: &str) -> Value {
    let length = body.len();
    let head = "Host: bench.test\r\nContent-Type: application/json";
    let request = format!("POST {PATH} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    let response = Client::connect(program.port()).request(request.as_bytes());
    let parsed = serde_json::from_slice(&response.body).ok().filter(|_| response.status == 200);
    parsed.unwrap_or_else(|| panic!("{}: {response:?}\n{}", program.name(), program.output()))
}

/// Remaining quota of the limit.
fn remaining(ours: &Program) -> u64 {
    let response = check(ours, PEEK_BODY);
    response["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("no remaining quota: {response}"))
}
