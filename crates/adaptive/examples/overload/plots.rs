//! The plots of the page.

use sluicegate_testkit::overload::LoadProfile;
use sluicegate_testkit::overload::experiment::{PolicyExperiment, ServerShape};

use crate::plot::{Curve, Plot};
use crate::{CONTENDERS, Contender};

const SHAPE: ServerShape = ServerShape::SHARED;
const LOADS: [f64; 10] = [0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0];

/// File name and content of each plot.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let capacity = SHAPE.scenario(LoadProfile::steady(1.0), 1.0).nominal_capacity();
    let mut goodput = Vec::new();
    let mut p99 = Vec::new();
    for law in CONTENDERS {
        let trial = PolicyExperiment::new(law.admission, 2);
        let runs: Vec<_> = LOADS.iter().map(|load| (*load, trial.steady(&SHAPE, *load))).collect();
        goodput.push(curve(law, runs.iter().map(|(load, it)| (*load, it.goodput(5.0..28.0) / capacity)).collect()));
        p99.push(curve(law, runs.iter().map(|(load, it)| (*load, it.percentile(5.0..28.0, 0.99))).collect()));
    }
    let step = Plot { x: "seconds", y: "concurrency limit", max: 220.0, log: None };
    let overload = Plot { x: "minutes", y: "concurrency limit", max: 220.0, log: None };
    vec![
        ("goodput.svg", Plot { x: "offered load", y: "goodput", max: 1.1, log: None }.draw(&goodput)),
        ("p99.svg", Plot { x: "offered load", y: "p99 in seconds", max: 30.0, log: Some(0.03) }.draw(&p99)),
        ("step.svg", step.draw(&limits(SHAPE, &LoadProfile::step(0.5, 10.0, 3.0), 30.0, 0.1, 1.0))),
        ("overload.svg", overload.draw(&limits(SHAPE.slowed(4.0), &LoadProfile::steady(2.0), 1_800.0, 10.0, 60.0))),
    ]
}

const fn curve(law: Contender, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: law.name, colour: law.colour, points }
}

/// Limit over time for every control law, averaged over `step` seconds and plotted in units of `unit`
/// seconds.
fn limits(shape: ServerShape, load: &LoadProfile, duration: f64, step: f64, unit: f64) -> Vec<Curve> {
    let limited = CONTENDERS.into_iter().filter(|law| law.name != "unprotected");
    let curves = limited.map(|law| {
        let runs = PolicyExperiment::new(law.admission, 1).run(&shape.scenario(load.clone(), duration));
        let steps = (duration / step) as u32;
        let points = (0..steps).filter_map(|index| {
            let from = f64::from(index) * step;
            Some((from / unit, runs.limit(from..from + step)?))
        });
        curve(law, points.collect())
    });
    curves.collect()
}
