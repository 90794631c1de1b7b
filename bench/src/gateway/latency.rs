//! How long answers take where there is no hurry: `p99-half-load`.
//!
//! Requests come by the clock, at half of what nginx can do at most, over 64 connections.

use std::time::Duration;

use super::NGINX;
use super::sides::{self, Limit, Setting};
use crate::programs::open_loop::OpenLoop;
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CONNECTIONS: u32 = 64;

pub(crate) fn half_load(scale: Scale) -> Vec<Row> {
    let upstream = sides::upstream();
    let setting = Setting::few(Limit::Plenty);
    let (ours, nginx) = (sides::ours(setting, &upstream), sides::nginx(setting, &upstream));
    for side in [&ours, &nginx] {
        sides::prove_it_proxies(side);
        wrk::get(side, "/small", 1);
    }
    let (rounds, seconds) = if scale.quick { (1, 1) } else { (11, 2) };
    let per_second = wrk::get(&nginx, "/small", seconds).per_second / 2.0;
    let lasting = Duration::from_secs(seconds.into());
    let measure = |side: &Program| {
        let times = OpenLoop { connections: CONNECTIONS, per_second, path: "/small", lasting }.times(side.port());
        times[times.len() * 99 / 100].as_secs_f64() * 1e6
    };
    let [ours, theirs] = median_of(rounds, [&ours, &nginx], |side| measure(side));
    vec![Row { case: "p99-half-load", peer: NGINX, unit: Unit::Micros, ours, theirs, goal: Goal::ratio(1.2) }]
}
