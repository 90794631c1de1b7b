//! Every gate on seeds that nothing was tuned on.

use std::ops::Range;

use sluicegate_testkit::overload::Class;
use sluicegate_testkit::overload::trial::{Shape, Trial, cold_start};

use crate::figures::{OVERLOADS, SPAN};
use crate::{LAWS, Law};

/// How many sets of seeds there are.
const SETS: u64 = 20;
/// What comes right after a start in overload, when nothing is known yet.
const START: Range<f64> = 0.0..2.5;
/// And somewhat longer.
const BEGINNING: Range<f64> = 0.0..10.0;
/// A cold start: all is slow, and then it is not.
const COLD: [Range<f64>; 2] = [0.0..5.0, 5.0..10.0];
/// And after it.
const WARM: Range<f64> = 10.0..20.0;

/// A figure's name, and its value for every set.
type Row = (String, Vec<f64>);

/// Prints the least, the middle and the most of every figure. It takes minutes.
pub(crate) fn print() {
    let [ours, ..] = LAWS;
    println!("{:16} {:15} {:>9} {:>9} {:>9}", "", "of twenty sets", "least", "middle", "most");
    for shape in Shape::ALL {
        for (name, mut values) in rows(ours, &shape) {
            values.sort_by(f64::total_cmp);
            if let (Some(least), Some(most)) = (values.first(), values.last()) {
                println!("{:16} {name:15} {least:9.4} {:9.4} {most:9.4}", shape.name, values[values.len() / 2]);
            }
        }
    }
}

fn rows(law: Law, shape: &Shape) -> Vec<Row> {
    let usual = shape.usual_p99(3);
    let mut rows: Vec<Row> = Vec::new();
    let mut note = |name: &str, value: f64| match rows.iter_mut().find(|row| row.0 == name) {
        Some(row) => row.1.push(value),
        None => rows.push((name.to_owned(), vec![value])),
    };
    let (mut places, mut warm_places) = (OVERLOADS.map(|_| Vec::new()), Vec::new());
    for nth in 1..=SETS {
        let trial = |seeds| Trial::new(law.front, seeds).from_seed(1_000_000 * nth);
        for (load, places) in OVERLOADS.into_iter().zip(&mut places) {
            let stories = trial(3).steady(shape, load);
            note(&format!("goodput at {load}"), stories.goodput_share(SPAN));
            note("p99", stories.percentile(SPAN, 0.99) / usual);
            note("start: goodput", stories.goodput_share(BEGINNING));
            note("start: p99", stories.percentile(START, 0.99) / usual);
            places.extend(stories.each().iter().filter_map(|story| story.limit(SPAN)));
            if load == OVERLOADS[OVERLOADS.len() - 1] {
                note("highest class", stories.served(Class::Vip, SPAN));
            }
        }
        let cold = trial(3).run(&cold_start(shape));
        let [done, possible]: [f64; 2] =
            [COLD.map(|span| cold.goodput(span)), COLD.map(|span| cold.possible(span))].map(|spans| spans.iter().sum());
        note("cold: goodput", done / possible);
        note("cold: p99", cold.percentile(START, 0.99) / usual);
        warm_places.extend(cold.each().iter().filter_map(|story| story.limit(WARM)));
        note("refused", trial(6).steady(shape, 0.8).refused(SPAN));
        note("settled", trial(1).settling(shape).unwrap_or(f64::INFINITY));
        note("back", trial(1).back(shape).unwrap_or(f64::INFINITY));
        note("drift", trial(1).drift(shape).unwrap_or(f64::INFINITY));
    }
    // Of single runs: how far from each other they end up.
    let each_load = places.into_iter().map(|places| ("places", places));
    for (name, mut places) in each_load.chain([("cold: places", warm_places)]) {
        places.sort_by(f64::total_cmp);
        let middle = places.get(places.len() / 2).copied().unwrap_or(f64::NAN);
        places.iter().for_each(|limit| note(name, limit / middle));
    }
    rows
}
