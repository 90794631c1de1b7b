//! The pictures.

use sluicegate_testkit::overload::Load;
use sluicegate_testkit::overload::trial::{Shape, Trial};

use crate::plot::{Curve, Plot};
use crate::{LAWS, Law};

const SHAPE: Shape = Shape::SHARED;
const LOADS: [f64; 10] = [0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0];

/// Name and content of each.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let capacity = SHAPE.under(Load::steady(1.0), 1.0).usual_capacity();
    let mut goodput = Vec::new();
    let mut p99 = Vec::new();
    for law in LAWS {
        let trial = Trial::new(law.front, 2);
        let runs: Vec<_> = LOADS.iter().map(|load| (*load, trial.steady(&SHAPE, *load))).collect();
        goodput.push(curve(law, runs.iter().map(|(load, it)| (*load, it.goodput(5.0..28.0) / capacity)).collect()));
        p99.push(curve(law, runs.iter().map(|(load, it)| (*load, it.percentile(5.0..28.0, 0.99))).collect()));
    }
    let step = Plot { x: "seconds", y: "places", most: 220.0, log: None };
    let overload = Plot { x: "minutes", y: "places", most: 220.0, log: None };
    vec![
        ("goodput.svg", Plot { x: "offered", y: "goodput", most: 1.1, log: None }.draw(&goodput)),
        ("p99.svg", Plot { x: "offered", y: "p99 in seconds", most: 30.0, log: Some(0.03) }.draw(&p99)),
        ("step.svg", step.draw(&limits(SHAPE, &Load::step(0.5, 10.0, 3.0), 30.0, 0.1, 1.0))),
        ("overload.svg", overload.draw(&limits(SHAPE.slower(4.0), &Load::steady(2.0), 1_800.0, 10.0, 60.0))),
    ]
}

const fn curve(law: Law, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: law.name, colour: law.colour, points }
}

/// Every law's limit over time, averaged over steps of so many seconds and drawn in units of so many.
fn limits(shape: Shape, load: &Load, lasting: f64, step: f64, unit: f64) -> Vec<Curve> {
    let limited = LAWS.into_iter().filter(|law| law.name != "nothing");
    let curves = limited.map(|law| {
        let stories = Trial::new(law.front, 1).run(&shape.under(load.clone(), lasting));
        let steps = (lasting / step) as u32;
        let points = (0..steps).filter_map(|nth| {
            let from = f64::from(nth) * step;
            Some((from / unit, stories.limit(from..from + step)?))
        });
        curve(law, points.collect())
    });
    curves.collect()
}
