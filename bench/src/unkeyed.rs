//! One bucket without keys: `unkeyed-allow`, `unkeyed-deny`, `sliced-allow`, on one and two threads.

use std::hint::black_box;

use crate::ours;
use crate::peers;
use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each_on};

const DECISIONS: u32 = 2_000_000;

pub(crate) fn allow_1t(scale: Scale) -> Vec<Row> {
    allow("unkeyed-allow-1t", 1, scale)
}

pub(crate) fn allow_2t(scale: Scale) -> Vec<Row> {
    allow("unkeyed-allow-2t", 2, scale)
}

pub(crate) fn deny_1t(scale: Scale) -> Vec<Row> {
    deny("unkeyed-deny-1t", 1, scale)
}

pub(crate) fn deny_2t(scale: Scale) -> Vec<Row> {
    deny("unkeyed-deny-2t", 2, scale)
}

pub(crate) fn sharded_1t(scale: Scale) -> Vec<Row> {
    sharded("sliced-allow-1t", 1, scale)
}

pub(crate) fn sharded_2t(scale: Scale) -> Vec<Row> {
    sharded("sliced-allow-2t", 2, scale)
}

/// Measures a bucket that is never empty: one token per nanosecond, burst of one second's tokens.
fn allow(case: &'static str, threads: usize, scale: Scale) -> Vec<Row> {
    let ours = ours::SharedBucket::plentiful();
    let theirs = peers::governor_plentiful();
    let decisions = scale.size(DECISIONS);
    let figures = best_of(
        scale.rounds(),
        [&mut || nanos_each_on(threads, decisions, Expect::Admitted, || |_| black_box(&ours).admits()), &mut || {
            nanos_each_on(threads, decisions, Expect::Admitted, || |_| black_box(black_box(&theirs).check().is_ok()))
        }],
    );
    row(case, figures, 1.0)
}

/// Measures an empty bucket with one token per hour.
fn deny(case: &'static str, threads: usize, scale: Scale) -> Vec<Row> {
    let ours = ours::SharedBucket::hourly();
    let theirs = peers::governor_hourly();
    assert!(ours.admits() && theirs.check().is_ok(), "a new bucket is full");
    let decisions = scale.size(DECISIONS);
    let figures = best_of(
        scale.rounds(),
        [&mut || nanos_each_on(threads, decisions, Expect::Refused, || |_| black_box(&ours).admits()), &mut || {
            nanos_each_on(threads, decisions, Expect::Refused, || |_| black_box(black_box(&theirs).check().is_ok()))
        }],
    );
    row(case, figures, 1.0)
}

/// Measures the bucket that is never empty with prefetched tokens per thread on the Sluicegate side.
fn sharded(case: &'static str, threads: usize, scale: Scale) -> Vec<Row> {
    let ours = ours::ShardedBucket::plentiful();
    let theirs = peers::governor_plentiful();
    let decisions = scale.size(DECISIONS);
    let figures = best_of(
        scale.rounds(),
        [
            &mut || {
                nanos_each_on(threads, decisions, Expect::Admitted, || {
                    let mut tokens = ours.local_tokens();
                    move |_| black_box(&mut tokens).admits()
                })
            },
            &mut || {
                nanos_each_on(threads, decisions, Expect::Admitted, || {
                    |_| black_box(black_box(&theirs).check().is_ok())
                })
            },
        ],
    );
    row(case, figures, 0.3)
}

fn row(case: &'static str, [ours, theirs]: [f64; 2], ratio: f64) -> Vec<Row> {
    vec![Row { case, peer: peers::GOVERNOR, unit: Unit::Nanos, ours, theirs, goal: Goal::ratio(ratio) }]
}
