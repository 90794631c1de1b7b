//! What is measured of every law.

use sluicegate_testkit::overload::Class;
use sluicegate_testkit::overload::trial::{Shape, Stories, Trial, cold_start, ramp, slow_dependency, twice_the_work};

use crate::Law;

const SEEDS: u64 = 3;
pub(crate) const SPAN: std::ops::Range<f64> = 5.0..28.0;

/// The loads in the table of gates.
pub(crate) const OVERLOADS: [f64; 5] = [1.2, 1.5, 2.0, 3.0, 5.0];

/// One figure and whether it passes its gate.
pub(crate) struct Figure {
    pub(crate) text: String,
    pub(crate) met: bool,
}

impl Figure {
    fn new(text: String, met: bool) -> Self {
        Self { text, met }
    }

    fn seconds(seconds: Option<f64>, most: f64) -> Self {
        let text = seconds.map_or_else(|| "never".into(), |seconds| format!("{seconds:.1} s"));
        Self::new(text, seconds.is_some_and(|seconds| seconds <= most))
    }
}

/// The names of the gates and what they ask for, in the order of [`gates`].
pub(crate) const GATES: [(&str, &str); 7] = [
    ("goodput", "least of 1.2 to 5 times the capacity, of what was possible: at least 0.95"),
    ("p99", "most of 1.2 to 5 times the capacity, in multiples of the bare server's at 0.8: at most 3"),
    ("settled", "after a step from 0.5 to 3 times: at most 2 s"),
    ("back", "after a drop from 3 to 0.5 times: at most 3 s"),
    ("refused", "at 0.8: less than 0.1 %"),
    ("drift", "of the limit in 30 minutes of twofold overload: less than 10 %"),
    ("highest class", "served at 5 times: at least 99.9 %"),
];

/// Every gate's figure of a law on a shape.
pub(crate) fn gates(law: Law, shape: &Shape) -> [Figure; 7] {
    let trial = Trial::new(law.front, SEEDS);
    let usual = shape.usual_p99(SEEDS);
    let overloaded: Vec<Stories> = OVERLOADS.iter().map(|load| trial.steady(shape, *load)).collect();
    let goodput = overloaded.iter().map(|it| it.goodput_share(SPAN)).fold(f64::INFINITY, f64::min);
    let p99 = overloaded.iter().map(|it| it.percentile(SPAN, 0.99) / usual).fold(0.0, f64::max);
    let refused = trial.steady(shape, 0.8).refused(SPAN);
    let vip = overloaded.last().map_or(0.0, |it| it.served(Class::Vip, SPAN));
    let drift = Trial::new(law.front, 1).drift(shape);
    [
        Figure::new(format!("{goodput:.2}"), goodput >= 0.95),
        Figure::new(format!("{p99:.1}"), p99 <= 3.0),
        Figure::seconds(trial.settling(shape), 2.0),
        Figure::seconds(trial.back(shape), 3.0),
        Figure::new(format!("{:.2} %", refused * 100.0), refused < 0.001),
        Figure::new(
            drift.map_or_else(|| "no limit".into(), |drift| format!("{:.0} %", drift * 100.0)),
            drift.is_some_and(|drift| drift < 0.1),
        ),
        Figure::new(format!("{:.1} %", (vip * 1_000.0).floor() / 10.0), vip >= 0.999),
    ]
}

/// What else can happen.
pub(crate) const EVENTS: [(&str, &str); 4] = [
    ("ramp", "from 0.5 to 3 times the capacity in 20 s and back in 20 s"),
    ("work x 2", "every request takes twice as long, in 1.5 times the load; 3 s later"),
    ("cold start", "everything takes five times as long for 5 s, in 1.5 times the load; 5 s later"),
    ("slow dependency", "requests wait 200 ms instead of 10 ms for something else, no CPU is used; 5 s later"),
];

/// Goodput, of what was possible, and p99 in multiples of the bare server's at 0.8 load, for every event.
pub(crate) fn events(law: Law) -> Vec<Figure> {
    let trial = Trial::new(law.front, SEEDS);
    let shape = Shape::SHARED;
    let usual = shape.usual_p99(SEEDS);
    // The dependency's own p99, with nothing before it.
    let slow = 0.2 * 4.6;
    let cases = [
        (trial.run(&ramp(&shape)), 10.0..50.0, usual),
        (trial.run(&twice_the_work(&shape)), 18.0..38.0, 2.0 * usual),
        (trial.run(&cold_start(&shape)), 10.0..28.0, usual),
        (trial.run(&slow_dependency()), 15.0..29.0, slow),
    ];
    let figures = cases.into_iter().map(|(stories, span, usual)| {
        let parts = ((span.end - span.start) * 2.0) as u32;
        let half = |nth: u32| span.start + f64::from(nth) / 2.0..span.start + f64::from(nth + 1) / 2.0;
        let possible = (0..parts).map(|nth| stories.possible(half(nth))).sum::<f64>() / f64::from(parts);
        let goodput = stories.goodput(span.clone()) / possible;
        let p99 = stories.percentile(span, 0.99) / usual;
        Figure::new(format!("{goodput:.2} / {p99:.1}"), goodput >= 0.95 && p99 <= 3.0)
    });
    figures.collect()
}
