//! Throughput under monitoring: `gateway-allow` and `gateway-refused`, both also with an access log, `server-http`,
//! `server-resp`.

use super::UNMONITORED;
use super::monitor::Monitor;
use crate::gateway::contenders;
use crate::programs::program::{Program, free_port};
use crate::programs::redis_benchmark::BenchmarkLoad;
use crate::programs::rounds::median_of;
use crate::programs::{sluicegate, wrk};
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const GOAL: Option<Goal> = Goal::ratio(0.9);

/// All requests are admitted and proxied.
pub(crate) fn gateway_allow(scale: Scale) -> Vec<Row> {
    gateway("gateway-allow", "1000000/s", "1000000", None, scale)
}

/// Almost all requests are refused.
pub(crate) fn gateway_refused(scale: Scale) -> Vec<Row> {
    gateway("gateway-refused", "1/s", "1", None, scale)
}

/// All requests are admitted, proxied and logged.
pub(crate) fn gateway_allow_logged(scale: Scale) -> Vec<Row> {
    gateway("logged-allow", "1000000/s", "1000000", Some("access.log"), scale)
}

/// Almost all requests are refused; all are logged.
pub(crate) fn gateway_refused_logged(scale: Scale) -> Vec<Row> {
    gateway("logged-refused", "1/s", "1", Some("access.log"), scale)
}

fn gateway(case: &'static str, rate: &str, burst: &str, log: Option<&str>, scale: Scale) -> Vec<Row> {
    let upstream = contenders::upstream();
    let start = |monitored: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port, _| {
            let rules = include_str!("gateway.yaml");
            let words = [
                ("RATE", rate),
                ("BURST", burst),
                ("UPSTREAM", &upstream.port().to_string()),
                ("PORT", &port.to_string()),
            ];
            let rules = words.iter().fold(rules.to_owned(), |text, (word, with)| text.replace(word, with));
            let log = log.filter(|_| monitored).map(|file| format!("  access_log: {file}\n")).unwrap_or_default();
            format!("{}{rules}{log}", admin_section(admin, monitored))
        });
        (program, admin)
    };
    let measure = |program: &Program, seconds| wrk::get(program, "/small", seconds).per_second;
    // The cost of an access log of every request is reported without a goal.
    let goal = if log.is_some() { None } else { GOAL };
    compare(case, start, measure, goal, scale)
}

/// Decisions over HTTP.
pub(crate) fn server_http(scale: Scale) -> Vec<Row> {
    let start = |monitored: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port, _| {
            let rules = include_str!("../server/http.yaml").replace("PORT", &port.to_string());
            format!("{}{rules}", admin_section(admin, monitored))
        });
        (program, admin)
    };
    let body = r#"{"rule":"per-ip","client_ip":"203.0.113.9"}"#;
    let measure = |program: &Program, seconds| {
        let report = wrk::post(program, "/v1/check", body, seconds);
        assert!(report.non_2xx_3xx == 0, "{}: {} error responses", program.name(), report.non_2xx_3xx);
        report.per_second
    };
    compare("server-http", start, measure, GOAL, scale)
}

/// Decisions of a named rule over the Redis protocol with a million keys.
pub(crate) fn server_resp(scale: Scale) -> Vec<Row> {
    let start = |monitored: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port, _| {
            let rules = include_str!("resp.yaml").replace("PORT", &port.to_string());
            format!("{}{rules}", admin_section(admin, monitored))
        });
        (program, admin)
    };
    let measure = |program: &Program, seconds: u32| {
        let load = BenchmarkLoad { clients: 50, pipelined: 16, keys: 1_000_000, calls: seconds * 300_000 };
        load.per_second(program.port(), &["SLUICE.CHECK", "per-account", "account", "key:__rand_int__"])
    };
    compare("server-resp", start, measure, GOAL, scale)
}

fn admin_section(admin: u16, monitored: bool) -> String {
    if monitored { format!("admin: {{ listen: 127.0.0.1:{admin} }}\n") } else { String::new() }
}

fn compare(
    case: &'static str,
    start: impl Fn(bool) -> (Program, u16),
    measure: impl Fn(&Program, u32) -> f64,
    goal: Option<Goal>,
    scale: Scale,
) -> Vec<Row> {
    let ((monitored, admin), (unmonitored, _)) = (start(true), start(false));
    let _monitor = Monitor::start(admin);
    for program in [&monitored, &unmonitored] {
        // Warm-up.
        measure(program, 1);
    }
    let (rounds, seconds) = if scale.quick { (3, 1) } else { (7, 3) };
    let [ours, theirs] = median_of(rounds, [&monitored, &unmonitored], |program| measure(program, seconds));
    vec![Row { case, peer: UNMONITORED, unit: Unit::PerSecond, ours, theirs, goal }]
}
