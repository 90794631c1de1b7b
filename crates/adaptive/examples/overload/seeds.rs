//! Gate figures on seeds that were not used for tuning.

use std::ops::Range;

use sluicegate_testkit::overload::Class;
use sluicegate_testkit::overload::experiment::{PolicyExperiment, ServerShape, cold_start};

use crate::figures::{OVERLOADS, SPAN};
use crate::{CONTENDERS, Contender};

/// Number of seed sets.
const SETS: u64 = 20;
/// First seconds after a start in overload, with nothing learned yet.
const START_SPAN: Range<f64> = 0.0..2.5;
/// First ten seconds after a start.
const FIRST_TEN_SECONDS: Range<f64> = 0.0..10.0;
/// Cold start: the slow phase, and the phase after it.
const COLD_SPANS: [Range<f64>; 2] = [0.0..5.0, 5.0..10.0];
/// Time after a cold start.
const WARM_SPAN: Range<f64> = 10.0..20.0;

/// Name of a figure, and its value for every seed set.
type Row = (String, Vec<f64>);

/// Prints minimum, median and maximum of every figure. Takes minutes.
pub(crate) fn print() {
    let [ours, ..] = CONTENDERS;
    println!("{:16} {:15} {:>9} {:>9} {:>9}", "", "of twenty sets", "min", "median", "max");
    for shape in ServerShape::ALL {
        for (name, mut values) in rows(ours, &shape) {
            values.sort_by(f64::total_cmp);
            if let (Some(min), Some(max)) = (values.first(), values.last()) {
                println!("{:16} {name:15} {min:9.4} {:9.4} {max:9.4}", shape.name, values[values.len() / 2]);
            }
        }
    }
}

fn rows(law: Contender, shape: &ServerShape) -> Vec<Row> {
    let baseline = shape.baseline_p99(3);
    let mut rows: Vec<Row> = Vec::new();
    let mut record = |name: &str, value: f64| match rows.iter_mut().find(|row| row.0 == name) {
        Some(row) => row.1.push(value),
        None => rows.push((name.to_owned(), vec![value])),
    };
    let (mut limits, mut warm_limits) = (OVERLOADS.map(|_| Vec::new()), Vec::new());
    for index in 1..=SETS {
        let trial = |seeds| PolicyExperiment::new(law.admission, seeds).from_seed(1_000_000 * index);
        for (load, load_limits) in OVERLOADS.into_iter().zip(&mut limits) {
            let runs = trial(3).steady(shape, load);
            record(&format!("goodput at {load}"), runs.goodput_share(SPAN));
            record("p99", runs.percentile(SPAN, 0.99) / baseline);
            record("start: goodput", runs.goodput_share(FIRST_TEN_SECONDS));
            record("start: p99", runs.percentile(START_SPAN, 0.99) / baseline);
            load_limits.extend(runs.reports().iter().filter_map(|report| report.limit(SPAN)));
            if load == OVERLOADS[OVERLOADS.len() - 1] {
                record("highest class", runs.success_share(Class::Vip, SPAN));
            }
        }
        let cold = trial(3).run(&cold_start(shape));
        let [done, possible]: [f64; 2] =
            [COLD_SPANS.map(|span| cold.goodput(span)), COLD_SPANS.map(|span| cold.achievable(span))]
                .map(|spans| spans.iter().sum());
        record("cold: goodput", done / possible);
        record("cold: p99", cold.percentile(START_SPAN, 0.99) / baseline);
        warm_limits.extend(cold.reports().iter().filter_map(|report| report.limit(WARM_SPAN)));
        record("refused", trial(6).steady(shape, 0.8).refused_share(SPAN));
        record("settling time", trial(1).settling_time(shape).unwrap_or(f64::INFINITY));
        record("recovery time", trial(1).recovery_time(shape).unwrap_or(f64::INFINITY));
        record("drift", trial(1).limit_drift(shape).unwrap_or(f64::INFINITY));
    }
    // Spread of the limits over single runs.
    let each_load = limits.into_iter().map(|limits| ("limit", limits));
    for (name, mut limits) in each_load.chain([("cold: limit", warm_limits)]) {
        limits.sort_by(f64::total_cmp);
        let median = limits.get(limits.len() / 2).copied().unwrap_or(f64::NAN);
        limits.iter().for_each(|limit| record(name, limit / median));
    }
    rows
}
