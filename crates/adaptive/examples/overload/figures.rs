//! Figures measured for every control law.

use sluicegate_testkit::overload::Class;
use sluicegate_testkit::overload::experiment::{
    PolicyExperiment, ServerShape, SimReports, cold_start, doubled_service_time, ramp, slow_dependency,
};

use crate::Contender;

const SEEDS: u64 = 3;
pub(crate) const SPAN: std::ops::Range<f64> = 5.0..28.0;

/// Loads in the table of gates.
pub(crate) const OVERLOADS: [f64; 5] = [1.2, 1.5, 2.0, 3.0, 5.0];

/// A measured figure, and whether it passes its gate.
pub(crate) struct Figure {
    pub(crate) text: String,
    pub(crate) passes: bool,
}

impl Figure {
    fn new(text: String, met: bool) -> Self {
        Self { text, passes: met }
    }

    fn seconds(seconds: Option<f64>, max: f64) -> Self {
        let text = seconds.map_or_else(|| "never".into(), |seconds| format!("{seconds:.1} s"));
        Self::new(text, seconds.is_some_and(|seconds| seconds <= max))
    }
}

/// Names and thresholds of the gates, in the order of [`gates`].
pub(crate) const GATES: [(&str, &str); 7] = [
    ("goodput", "minimum at 1.2 to 5 times the capacity, relative to the possible goodput: at least 0.95"),
    ("p99", "maximum at 1.2 to 5 times the capacity, in multiples of the unprotected server's at 0.8: at most 3"),
    ("settling time", "after a step from 0.5 to 3 times the capacity: at most 2 s"),
    ("recovery time", "after a drop from 3 to 0.5 times the capacity: at most 3 s"),
    ("refused", "at 0.8 times the capacity: less than 0.1 %"),
    ("drift", "of the limit in 30 minutes of twofold overload: less than 10 %"),
    ("highest class", "served at 5 times the capacity: at least 99.9 %"),
];

/// Measures every gate for one control law and server shape.
pub(crate) fn gates(law: Contender, shape: &ServerShape) -> [Figure; 7] {
    let trial = PolicyExperiment::new(law.admission, SEEDS);
    let baseline = shape.baseline_p99(SEEDS);
    let overloaded: Vec<SimReports> = OVERLOADS.iter().map(|load| trial.steady(shape, *load)).collect();
    let goodput = overloaded.iter().map(|it| it.goodput_share(SPAN)).fold(f64::INFINITY, f64::min);
    let p99 = overloaded.iter().map(|it| it.percentile(SPAN, 0.99) / baseline).fold(0.0, f64::max);
    let refused = trial.steady(shape, 0.8).refused_share(SPAN);
    let vip = overloaded.last().map_or(0.0, |it| it.success_share(Class::Vip, SPAN));
    let drift = PolicyExperiment::new(law.admission, 1).limit_drift(shape);
    [
        Figure::new(format!("{goodput:.2}"), goodput >= 0.95),
        Figure::new(format!("{p99:.1}"), p99 <= 3.0),
        Figure::seconds(trial.settling_time(shape), 2.0),
        Figure::seconds(trial.recovery_time(shape), 3.0),
        Figure::new(format!("{:.2} %", refused * 100.0), refused < 0.001),
        Figure::new(
            drift.map_or_else(|| "no limit".into(), |drift| format!("{:.0} %", drift * 100.0)),
            drift.is_some_and(|drift| drift < 0.1),
        ),
        Figure::new(format!("{:.1} %", (vip * 1_000.0).floor() / 10.0), vip >= 0.999),
    ]
}

/// Further scenarios.
pub(crate) const EVENTS: [(&str, &str); 4] = [
    ("ramp", "from 0.5 to 3 times the capacity in 20 s and back in 20 s"),
    ("work x 2", "every request takes twice as long, at 1.5 times the capacity; from 3 s after the change"),
    ("cold start", "all work takes five times as long for 5 s, at 1.5 times the capacity; from 5 s after that"),
    ("slow dependency", "a dependency takes 200 ms instead of 10 ms, without CPU use; from 5 s after the change"),
];

/// Goodput as a share of the possible goodput, and p99 in multiples of the unprotected server's at 0.8
/// load, for every event.
pub(crate) fn events(law: Contender) -> Vec<Figure> {
    let trial = PolicyExperiment::new(law.admission, SEEDS);
    let shape = ServerShape::SHARED;
    let baseline = shape.baseline_p99(SEEDS);
    // p99 of the dependency itself, without any limit.
    let slow = 0.2 * 4.6;
    let cases = [
        (trial.run(&ramp(&shape)), 10.0..50.0, baseline),
        (trial.run(&doubled_service_time(&shape)), 18.0..38.0, 2.0 * baseline),
        (trial.run(&cold_start(&shape)), 10.0..28.0, baseline),
        (trial.run(&slow_dependency()), 15.0..29.0, slow),
    ];
    let figures = cases.into_iter().map(|(runs, span, baseline)| {
        let parts = ((span.end - span.start) * 2.0) as u32;
        let half = |index: u32| span.start + f64::from(index) / 2.0..span.start + f64::from(index + 1) / 2.0;
        let possible = (0..parts).map(|index| runs.achievable(half(index))).sum::<f64>() / f64::from(parts);
        let goodput = runs.goodput(span.clone()) / possible;
        let p99 = runs.percentile(span, 0.99) / baseline;
        Figure::new(format!("{goodput:.2} / {p99:.1}"), goodput >= 0.95 && p99 <= 3.0)
    });
    figures.collect()
}
