//! Every gate on seeds that nothing was tuned on.

use sluicegate_testkit::overload::Class;
use sluicegate_testkit::overload::trial::{Shape, Trial};

use crate::figures::{OVERLOADS, SPAN};
use crate::{LAWS, Law};

/// How many sets of seeds there are.
const SETS: u64 = 10;

/// A figure's name, and its value for every set.
type Row = (String, Vec<f64>);

/// Prints the least, the middle and the most of every figure. It takes minutes.
pub(crate) fn print() {
    let [ours, ..] = LAWS;
    println!("{:16} {:15} {:>9} {:>9} {:>9}", "", "of ten sets", "least", "middle", "most");
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
    for nth in 1..=SETS {
        let trial = |seeds| Trial::new(law.front, seeds).from_seed(1_000_000 * nth);
        for load in OVERLOADS {
            let stories = trial(3).steady(shape, load);
            note(&format!("goodput at {load}"), stories.goodput_share(SPAN));
            note("p99", stories.percentile(SPAN, 0.99) / usual);
            if load == OVERLOADS[OVERLOADS.len() - 1] {
                note("highest class", stories.served(Class::Vip, SPAN));
            }
        }
        note("refused", trial(6).steady(shape, 0.8).refused(SPAN));
        note("settled", trial(1).settling(shape).unwrap_or(f64::INFINITY));
        note("back", trial(1).back(shape).unwrap_or(f64::INFINITY));
        note("drift", trial(1).drift(shape).unwrap_or(f64::INFINITY));
    }
    rows
}
