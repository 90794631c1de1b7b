//! A million keys, visited uniformly: `keyed-string-1m`, `keyed-u64-1m`.
//!
//! Every key is in every table before measuring, and no bucket is full again while measuring: a key
//! takes a token a minute, of a million. So nothing is created, forgotten or refused in the timed part.
//! The strings lie in memory in the order all sides visit them, as a request's key lies in the buffer it
//! was just read into: what is fetched from afar is the limiter's own.

use std::hint::black_box;

use crate::keys;
use crate::ours;
use crate::peers::{self, Limitador, Throttlecrab};
use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};

const KEYS: u32 = 1_000_000;
const DECISIONS: u32 = 1_000_000;
/// limitador takes several times as long: fewer decisions give as steady a figure.
const DECISIONS_OF_LIMITADOR: u32 = 100_000;

pub(crate) fn strings(scale: Scale) -> Vec<Row> {
    const CASE: &str = "keyed-string-1m";
    let count = scale.size(KEYS);
    let decisions = scale.size(DECISIONS);
    let keys = keys::strings(count);
    let visited: Vec<String> =
        keys::order(decisions, count).into_iter().map(|nth| keys[nth as usize].clone()).collect();
    let visit = |nth: u32| black_box(&visited[nth as usize]);

    let ours = ours::StringTable::new(count);
    let governor = peers::governor_strings();
    let governor_rapid = peers::governor_strings_rapidhash();
    let mut throttlecrab = Throttlecrab::new(count);
    let mut limitador = Limitador::keyed(count);
    // One limiter after another: filled key by key in turn, their memory would lie interleaved, and
    // each would pay for the pages of all.
    fill(&keys, |key| ours.admits(key));
    fill(&keys, |key| governor.check_key(key).is_ok());
    fill(&keys, |key| governor_rapid.check_key(key).is_ok());
    fill(&keys, |key| throttlecrab.admits(key));
    fill(&keys, |key| limitador.admits(key));

    let [ours, theirs, rapid, crab, redhat] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(decisions, Expect::Admitted, |nth| ours.admits(visit(nth))),
            &mut || nanos_each(decisions, Expect::Admitted, |nth| governor.check_key(visit(nth)).is_ok()),
            &mut || nanos_each(decisions, Expect::Admitted, |nth| governor_rapid.check_key(visit(nth)).is_ok()),
            &mut || nanos_each(decisions, Expect::Admitted, |nth| throttlecrab.admits(visit(nth))),
            &mut || limitador.nanos_each(scale.size(DECISIONS_OF_LIMITADOR), |nth| visit(nth)),
        ],
    );
    let row = |peer, theirs, goal| Row { case: CASE, peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![
        row(peers::GOVERNOR, theirs, Goal::ratio(0.3)),
        row(peers::GOVERNOR_RAPIDHASH, rapid, None),
        row(peers::THROTTLECRAB, crab, None),
        row(peers::LIMITADOR, redhat, None),
    ]
}

pub(crate) fn integers(scale: Scale) -> Vec<Row> {
    let count = scale.size(KEYS);
    let decisions = scale.size(DECISIONS);
    let order: Vec<u64> = keys::order(decisions, count).into_iter().map(keys::integer).collect();
    let visit = |nth: u32| black_box(&order[nth as usize]);

    let ours = ours::IntegerTable::new(count);
    let governor = peers::governor_integers();
    let keys: Vec<u64> = (0..count).map(keys::integer).collect();
    fill(&keys, |key| ours.admits(*key));
    fill(&keys, |key| governor.check_key(key).is_ok());

    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(decisions, Expect::Admitted, |nth| ours.admits(*visit(nth))), &mut || {
            nanos_each(decisions, Expect::Admitted, |nth| governor.check_key(visit(nth)).is_ok())
        }],
    );
    let goal = Goal::ratio(0.5);
    vec![Row { case: "keyed-u64-1m", peer: peers::GOVERNOR, unit: Unit::Nanos, ours, theirs, goal }]
}

fn fill<K>(keys: &[K], admits: impl FnMut(&K) -> bool) {
    assert!(keys.iter().all(admits), "a new key is admitted");
}
