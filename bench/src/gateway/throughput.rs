//! Requests per second: `proxied-allow` and `refused`, with a token bucket, and with a window and an access log.

use super::NGINX;
use super::contenders::{self, BenchLimit, ContenderConfig};
use crate::programs::client::{Client, get};
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

/// All requests are admitted and proxied.
pub(crate) fn proxied_allow(scale: Scale) -> Vec<Row> {
    compare("proxied-allow", ContenderConfig::with_few_clients(BenchLimit::Plenty), Goal::ratio(1.0), scale)
}

/// Almost all requests are refused.
pub(crate) fn refused(scale: Scale) -> Vec<Row> {
    compare("refused", ContenderConfig::with_few_clients(BenchLimit::PerSecond), Goal::ratio(1.1), scale)
}

/// [`proxied_allow`] with a window and an access log.
pub(crate) fn proxied_allow_logged(scale: Scale) -> Vec<Row> {
    let config = ContenderConfig::with_few_clients(BenchLimit::Plenty);
    compare("proxied-allow-logged", ContenderConfig { window_and_log: true, ..config }, Goal::ratio(1.0), scale)
}

/// [`refused`] with a window and an access log.
pub(crate) fn refused_logged(scale: Scale) -> Vec<Row> {
    let config = ContenderConfig::with_few_clients(BenchLimit::PerSecond);
    compare("refused-logged", ContenderConfig { window_and_log: true, ..config }, Goal::ratio(1.0), scale)
}

fn compare(case: &'static str, config: ContenderConfig, goal: Option<Goal>, scale: Scale) -> Vec<Row> {
    let upstream = contenders::upstream();
    let limit = config.limit;
    let (ours, nginx) = (contenders::ours(config, &upstream), contenders::nginx(config, &upstream));
    for contender in [&ours, &nginx] {
        contenders::assert_proxies(contender);
        // Warm-up: opens the connections to the upstream.
        wrk::get(contender, "/small", 1);
    }
    match limit {
        BenchLimit::Plenty => contenders::assert_sends_quota_headers(&ours),
        BenchLimit::PerSecond | BenchLimit::PerMinute => [&ours, &nginx].into_iter().for_each(assert_refuses),
    }
    let (rounds, seconds) = if scale.quick { (1, 1) } else { (5, 4) };
    let measure = |contender| per_second(contender, limit, seconds);
    let [ours, theirs] = median_of(rounds, [&ours, &nginx], |contender| measure(contender));
    vec![Row { case, peer: NGINX, unit: Unit::PerSecond, ours, theirs, goal }]
}

fn per_second(contender: &Program, limit: BenchLimit, seconds: u32) -> f64 {
    let report = wrk::get(contender, "/small", seconds);
    let (name, admitted) = (contender.name(), report.requests - report.non_2xx_3xx);
    match limit {
        BenchLimit::Plenty => assert!(report.non_2xx_3xx == 0, "{name}: {} error responses", report.non_2xx_3xx),
        // One per second, and one token left before the start.
        _ => assert!(admitted <= u64::from(seconds) + 2, "{name} admitted {admitted} requests in {seconds} s"),
    }
    report.per_second
}

/// Asserts that refusals have status 429: wrk only reports that a status is not 2xx or 3xx.
fn assert_refuses(contender: &Program) {
    let mut client = Client::connect(contender.port());
    let refused = (0..100).filter(|_| client.request(&get("/small")).status == 429).count();
    assert!(refused >= 98, "{} refused only {refused} of 100 with 429", contender.name());
}
