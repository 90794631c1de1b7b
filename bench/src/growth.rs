//! Ours beside itself, grown: `growth-keys`, `growth-rules`.

use std::hint::black_box;

use crate::keys;
use crate::ours;
use crate::report::{Goal, Row, Unit};
use crate::rules::{self, ACCOUNTS, Call};
use crate::runner::{Expect, Scale, best_of, nanos_each};

const DECISIONS: u32 = 1_000_000;

/// Ten million keys beside a thousand. The keys are integers computed from the visit's number, the
/// same way on both sides, so that no list of keys is fetched from memory and only the table grows.
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
    let visit = |nth, count| black_box(keys::integer(keys::uniform(nth, count)));
    let [grown_alone, small_alone, grown_batched, small_batched] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(decisions, Expect::Admitted, |nth| grown.admits(visit(nth, many))),
            &mut || nanos_each(decisions, Expect::Admitted, |nth| small.admits(visit(nth, few))),
            &mut || nanos_each_batched(decisions, |batch| grown.admits_each(batch), |nth| visit(nth, many)),
            &mut || nanos_each_batched(decisions, |batch| small.admits_each(batch), |nth| visit(nth, few)),
        ],
    );
    let row = |peer, ours, theirs, goal| Row { case: "growth-keys", peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![
        row("itself, small", grown_alone, small_alone, Goal::ratio(2.0)),
        row("itself, small, 64 at a time", grown_batched, small_batched, None),
    ]
}

/// Keys decided in one call.
const BATCH: u32 = 64;

/// Nanoseconds per decision where 64 keys are handed over at a time. Making the keys is part of it, as it
/// is one by one.
fn nanos_each_batched(decisions: u32, mut admits: impl FnMut(&[u64]) -> u32, key: impl Fn(u32) -> u64) -> f64 {
    let mut batch = Vec::with_capacity(BATCH as usize);
    let batches = decisions / BATCH;
    let each = nanos_each(batches, Expect::Admitted, |nth| {
        batch.clear();
        batch.extend((0..BATCH).map(|of_batch| key(nth * BATCH + of_batch)));
        admits(&batch) == BATCH
    });
    each / f64::from(BATCH)
}

/// Ten thousand rules beside one; the same request matches exactly one of them.
pub(crate) fn rules(scale: Scale) -> Vec<Row> {
    let grown = ours::Rules::new(&rules::services(0, scale.size(10_000)));
    let single = ours::Rules::new(&rules::services(642, 1));
    let accounts = rules::accounts();
    let decisions = scale.size(DECISIONS);
    let call = |nth: u32| {
        let account = accounts[(nth % ACCOUNTS) as usize].as_str();
        black_box(Call { method: "GET", path: "/api/service-642/items", account })
    };
    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(decisions, Expect::Admitted, |nth| grown.admits(&call(nth))), &mut || {
            nanos_each(decisions, Expect::Admitted, |nth| single.admits(&call(nth)))
        }],
    );
    let goal = Goal::ratio(2.0);
    vec![Row { case: "growth-rules", peer: "itself, small", unit: Unit::Nanos, ours, theirs, goal }]
}
