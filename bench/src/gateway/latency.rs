//! Response times at moderate load: `p99-half-load`.
//!
//! An open loop over 64 connections at half of nginx's maximum rate.

use std::time::Duration;

use super::NGINX;
use super::contenders::{self, BenchLimit, ContenderConfig};
use crate::programs::open_loop::OpenLoop;
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::wrk;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const CONNECTIONS: u32 = 64;

pub(crate) fn half_load(scale: Scale) -> Vec<Row> {
    let upstream = contenders::upstream();
    let config = ContenderConfig::with_few_clients(BenchLimit::Plenty);
    let (ours, nginx) = (contenders::ours(config, &upstream), contenders::nginx(config, &upstream));
    for contender in [&ours, &nginx] {
        contenders::assert_proxies(contender);
        wrk::get(contender, "/small", 1);
    }
    let (rounds, seconds) = if scale.quick { (1, 1) } else { (11, 2) };
    let per_second = wrk::get(&nginx, "/small", seconds).per_second / 2.0;
    let duration = Duration::from_secs(seconds.into());
    let measure = |contender: &Program| {
        let times = OpenLoop { connections: CONNECTIONS, per_second, path: "/small", duration }.times(contender.port());
        times[times.len() * 99 / 100].as_secs_f64() * 1e6
    };
    let [ours, theirs] = median_of(rounds, [&ours, &nginx], |contender| measure(contender));
    vec![Row { case: "p99-half-load", peer: NGINX, unit: Unit::Micros, ours, theirs, goal: Goal::ratio(1.2) }]
}
