//! Scaling with the number of keys and rules: `growth-keys`, `growth-rules`.

use std::hint::black_box;

use crate::keys;
use crate::ours;
use crate::report::{Goal, Row, Unit};
use crate::rules::{self, ACCOUNTS};
use crate::runner::{Expect, Scale, best_of, nanos_each};
use crate::spec::BenchRequest;

const DECISIONS: u32 = 1_000_000;

/// Compares ten million keys with a thousand. The keys are integers computed from the access number, so that no list of
/// keys is read from memory and only the table grows.
pub(crate) fn keys(scale: Scale) -> Vec<Row> {
    let (many, few) = (scale.size(10_000_000), 1_000);
    let filled = |count: u32| {
        let table = ours::IntegerTable::new(count);
        for key in (0..count).map(keys::integer) {
            assert!(table.admits(key), "a new key is admitted");
        }
        table
    };
    let (grown, small) = (filled(many), filled(few));
    let decisions = scale.size(DECISIONS);
    let visit = |index, count| black_box(keys::integer(keys::uniform(index, count)));
    let [grown_alone, small_alone, grown_batched, small_batched] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(decisions, Expect::Admitted, |index| grown.admits(visit(index, many))),
            &mut || nanos_each(decisions, Expect::Admitted, |index| small.admits(visit(index, few))),
            &mut || nanos_each_batched(decisions, |batch| grown.count_admitted(batch), |index| visit(index, many)),
            &mut || nanos_each_batched(decisions, |batch| small.count_admitted(batch), |index| visit(index, few)),
        ],
    );
    let row = |peer, ours, theirs, goal| Row { case: "growth-keys", peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![
        row("itself, small", grown_alone, small_alone, Goal::ratio(2.0)),
        row("itself, small, batches of 64", grown_batched, small_batched, None),
    ]
}

/// Keys decided in one call.
const BATCH: u32 = 64;

/// Nanoseconds per decision for batches of 64 keys. The figure includes the computation of the keys, as in the case
/// without batches.
fn nanos_each_batched(decisions: u32, mut admits: impl FnMut(&[u64]) -> u32, key: impl Fn(u32) -> u64) -> f64 {
    let mut batch = Vec::with_capacity(BATCH as usize);
    let batches = decisions / BATCH;
    let each = nanos_each(batches, Expect::Admitted, |index| {
        batch.clear();
        batch.extend((0..BATCH).map(|offset| key(index * BATCH + offset)));
        admits(&batch) == BATCH
    });
    each / f64::from(BATCH)
}

/// Compares ten thousand rules with one; the request matches exactly one rule.
pub(crate) fn rules(scale: Scale) -> Vec<Row> {
    let grown = ours::Rules::new(&rules::services(0, scale.size(10_000)));
    let single = ours::Rules::new(&rules::services(642, 1));
    let accounts = rules::accounts();
    let decisions = scale.size(DECISIONS);
    let call = |index: u32| {
        let account = accounts[(index % ACCOUNTS) as usize].as_str();
        black_box(BenchRequest { method: "GET", path: "/api/service-642/items", account })
    };
    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(decisions, Expect::Admitted, |index| grown.admits(&call(index))), &mut || {
            nanos_each(decisions, Expect::Admitted, |index| single.admits(&call(index)))
        }],
    );
    let goal = Goal::ratio(2.0);
    vec![Row { case: "growth-rules", peer: "itself, small", unit: Unit::Nanos, ours, theirs, goal }]
}
