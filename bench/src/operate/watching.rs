//! Throughput while somebody watches: `gateway-allow`, `gateway-refused`, the same with an access log beside it,
//! `server-http`, `server-resp`.

use super::UNWATCHED;
use super::watched::Watcher;
use crate::gateway::sides;
use crate::programs::program::{Program, free_port};
use crate::programs::redis_benchmark::Asking;
use crate::programs::rounds::median_of;
use crate::programs::{sluicegate, wrk};
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const GOAL: Option<Goal> = Goal::ratio(0.9);

/// Everybody is let in and proxied.
pub(crate) fn gateway_allow(scale: Scale) -> Vec<Row> {
    gateway("gateway-allow", "1000000/s", "1000000", None, scale)
}

/// Nearly everybody is refused.
pub(crate) fn gateway_refused(scale: Scale) -> Vec<Row> {
    gateway("gateway-refused", "1/s", "1", None, scale)
}

/// Everybody is let in and proxied, and every request noted.
pub(crate) fn gateway_allow_logged(scale: Scale) -> Vec<Row> {
    gateway("logged-allow", "1000000/s", "1000000", Some("access.log"), scale)
}

/// Nearly everybody is refused, and every request noted.
pub(crate) fn gateway_refused_logged(scale: Scale) -> Vec<Row> {
    gateway("logged-refused", "1/s", "1", Some("access.log"), scale)
}

fn gateway(case: &'static str, rate: &str, burst: &str, log: Option<&str>, scale: Scale) -> Vec<Row> {
    let upstream = sides::upstream();
    let start = |watched: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port| {
            let rules = include_str!("gateway.yaml");
            let words = [
                ("RATE", rate),
                ("BURST", burst),
                ("UPSTREAM", &upstream.port().to_string()),
                ("PORT", &port.to_string()),
            ];
            let rules = words.iter().fold(rules.to_owned(), |text, (word, with)| text.replace(word, with));
            let log = log.filter(|_| watched).map(|file| format!("  access_log: {file}\n")).unwrap_or_default();
            format!("{}{rules}{log}", watched_by(admin, watched))
        });
        (program, admin)
    };
    let measure = |side: &Program, seconds| wrk::get(side, "/small", seconds).per_second;
    // What an access log costs is shown, not promised: it notes every single request.
    let goal = if log.is_some() { None } else { GOAL };
    compared(case, start, measure, goal, scale)
}

/// Checks over HTTP.
pub(crate) fn server_http(scale: Scale) -> Vec<Row> {
    let start = |watched: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port| {
            let rules = include_str!("../server/http.yaml").replace("PORT", &port.to_string());
            format!("{}{rules}", watched_by(admin, watched))
        });
        (program, admin)
    };
    let body = r#"{"rule":"per-ip","client_ip":"203.0.113.9"}"#;
    let measure = |side: &Program, seconds| {
        let told = wrk::post(side, "/v1/check", body, seconds);
        assert!(told.others == 0, "{} answered {} with an error", side.name(), told.others);
        told.per_second
    };
    compared("server-http", start, measure, GOAL, scale)
}

/// A rule that is named, over the Redis protocol, by a million keys in turn.
pub(crate) fn server_resp(scale: Scale) -> Vec<Row> {
    let start = |watched: bool| {
        let admin = free_port();
        let program = sluicegate::run(|port| {
            let rules = include_str!("resp.yaml").replace("PORT", &port.to_string());
            format!("{}{rules}", watched_by(admin, watched))
        });
        (program, admin)
    };
    let measure = |side: &Program, seconds: u32| {
        let asking = Asking { clients: 50, pipelined: 16, keys: 1_000_000, calls: seconds * 300_000 };
        asking.per_second(side.port(), &["SLUICE.CHECK", "per-account", "account", "key:__rand_int__"])
    };
    compared("server-resp", start, measure, GOAL, scale)
}

fn watched_by(admin: u16, watched: bool) -> String {
    if watched { format!("admin: {{ listen: 127.0.0.1:{admin} }}\n") } else { String::new() }
}

fn compared(
    case: &'static str,
    start: impl Fn(bool) -> (Program, u16),
    measure: impl Fn(&Program, u32) -> f64,
    goal: Option<Goal>,
    scale: Scale,
) -> Vec<Row> {
    let ((watched, admin), (alone, _)) = (start(true), start(false));
    let _watcher = Watcher::of(admin);
    for side in [&watched, &alone] {
        // Not counted: the first requests are slower.
        measure(side, 1);
    }
    let (rounds, seconds) = if scale.quick { (3, 1) } else { (7, 3) };
    let [ours, theirs] = median_of(rounds, [&watched, &alone], |side| measure(side, seconds));
    vec![Row { case, peer: UNWATCHED, unit: Unit::PerSecond, ours, theirs, goal }]
}
