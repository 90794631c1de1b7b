//! Requests per second: `proxied-allow` and `refused`.

use super::NGINX;
use super::sides::{self, Limit, Setting};
use crate::programs::client::{Client, get};
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

/// Everybody is let in and proxied.
pub(crate) fn proxied_allow(scale: Scale) -> Vec<Row> {
    beside("proxied-allow", Limit::Plenty, Goal::ratio(1.0), scale)
}

/// Nearly everybody is refused.
pub(crate) fn refused(scale: Scale) -> Vec<Row> {
    beside("refused", Limit::PerSecond, Goal::ratio(1.1), scale)
}

fn beside(case: &'static str, limit: Limit, goal: Option<Goal>, scale: Scale) -> Vec<Row> {
    let upstream = sides::upstream();
    let setting = Setting::few(limit);
    let (ours, nginx) = (sides::ours(setting, &upstream), sides::nginx(setting, &upstream));
    for side in [&ours, &nginx] {
        sides::prove_it_proxies(side);
        // Not counted: connections to the upstream are made.
        wrk::get(side, "/small", 1);
    }
    match limit {
        Limit::Plenty => sides::prove_it_tells(&ours),
        Limit::PerSecond | Limit::PerMinute => [&ours, &nginx].into_iter().for_each(prove_it_refuses),
    }
    let (rounds, seconds) = if scale.quick { (1, 1) } else { (5, 4) };
    let measure = |side| per_second(side, limit, seconds);
    let [ours, theirs] = median_of(rounds, [&ours, &nginx], |side| measure(side));
    vec![Row { case, peer: NGINX, unit: Unit::PerSecond, ours, theirs, goal }]
}

fn per_second(side: &Program, limit: Limit, seconds: u32) -> f64 {
    let told = wrk::get(side, "/small", seconds);
    let admitted = told.requests - told.others;
    match limit {
        Limit::Plenty => assert!(told.others == 0, "{} let not everybody in: {} others", side.name(), told.others),
        // One a second, and one that was left from before.
        _ => assert!(admitted <= u64::from(seconds) + 2, "{} let {admitted} in within {seconds} s", side.name()),
    }
    told.per_second
}

/// wrk says that answers were none of 2xx and 3xx; what they are is looked at here.
fn prove_it_refuses(side: &Program) {
    let mut client = Client::connect(side.port());
    let refused = (0..100).filter(|_| client.ask(&get("/small")).status == 429).count();
    assert!(refused >= 98, "{} refused only {refused} of 100 with 429", side.name());
}
