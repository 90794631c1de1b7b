//! A million keys in uniform random order: `keyed-string-1m`, `keyed-u64-1m`.
//!
//! Every table contains every key before the timed part, and no bucket becomes full again during it (one token per
//! minute, burst of a million). So no key is created, evicted or refused in the timed part. The strings are stored in
//! the order of access, like a request's key in a buffer that was just read: cache misses come from the limiter only.

use std::hint::black_box;

use crate::keys;
use crate::ours;
use crate::peers::{self, Limitador, Throttlecrab};
use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};

const KEYS: u32 = 1_000_000;
const DECISIONS: u32 = 1_000_000;
/// limitador takes several times as long per decision: fewer decisions give an equally stable figure.
const LIMITADOR_DECISIONS: u32 = 100_000;

pub(crate) fn strings(scale: Scale) -> Vec<Row> {
    const CASE: &str = "keyed-string-1m";
    let count = scale.size(KEYS);
    let decisions = scale.size(DECISIONS);
    let keys = keys::strings(count);
    let visited: Vec<String> =
        keys::order(decisions, count).into_iter().map(|index| keys[index as usize].clone()).collect();
    let visit = |index: u32| black_box(&visited[index as usize]);

    let ours = ours::StringTable::new(count);
    let governor = peers::governor_strings();
    let governor_rapid = peers::governor_strings_rapidhash();
    let mut throttlecrab = Throttlecrab::new(count);
    let mut limitador = Limitador::keyed(count);
    // Fill one limiter after the other: filling them key by key would interleave their memory pages.
    fill(&keys, |key| ours.admits(key));
    fill(&keys, |key| governor.check_key(key).is_ok());
    fill(&keys, |key| governor_rapid.check_key(key).is_ok());
    fill(&keys, |key| throttlecrab.admits(key));
    fill(&keys, |key| limitador.admits(key));

    let [ours, theirs, rapid, throttlecrab, limitador] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(decisions, Expect::Admitted, |index| ours.admits(visit(index))),
            &mut || nanos_each(decisions, Expect::Admitted, |index| governor.check_key(visit(index)).is_ok()),
            &mut || nanos_each(decisions, Expect::Admitted, |index| governor_rapid.check_key(visit(index)).is_ok()),
            &mut || nanos_each(decisions, Expect::Admitted, |index| throttlecrab.admits(visit(index))),
            &mut || limitador.nanos_each(scale.size(LIMITADOR_DECISIONS), |index| visit(index)),
        ],
    );
    let row = |peer, theirs, goal| Row { case: CASE, peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![
        row(peers::GOVERNOR, theirs, Goal::ratio(0.3)),
        row(peers::GOVERNOR_RAPIDHASH, rapid, None),
        row(peers::THROTTLECRAB, throttlecrab, None),
        row(peers::LIMITADOR, limitador, None),
    ]
}

pub(crate) fn integers(scale: Scale) -> Vec<Row> {
    let count = scale.size(KEYS);
    let decisions = scale.size(DECISIONS);
    let order: Vec<u64> = keys::order(decisions, count).into_iter().map(keys::integer).collect();
    let visit = |index: u32| black_box(&order[index as usize]);

    let ours = ours::IntegerTable::new(count);
    let governor = peers::governor_integers();
    let keys: Vec<u64> = (0..count).map(keys::integer).collect();
    fill(&keys, |key| ours.admits(*key));
    fill(&keys, |key| governor.check_key(key).is_ok());

    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(decisions, Expect::Admitted, |index| ours.admits(*visit(index))), &mut || {
            nanos_each(decisions, Expect::Admitted, |index| governor.check_key(visit(index)).is_ok())
        }],
    );
    let goal = Goal::ratio(0.5);
    vec![Row { case: "keyed-u64-1m", peer: peers::GOVERNOR, unit: Unit::Nanos, ours, theirs, goal }]
}

fn fill<K>(keys: &[K], admits: impl FnMut(&K) -> bool) {
    assert!(keys.iter().all(admits), "a new key is admitted");
}
