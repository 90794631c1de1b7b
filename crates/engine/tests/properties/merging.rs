//! Merged states of two keys: at least as strict as both.

use proptest::prelude::*;
use sluicegate_testkit::arrivals::Arrival;

use super::subject::{Subject, costs, holdable, sample_times_from, subjects, with_two_orderly_runs};

/// Time from which both states have been used.
fn last(first: &[Arrival], second: &[Arrival]) -> u64 {
    first.iter().chain(second).map(|one| one.at).max().unwrap_or(0)
}

fn assert_not_more_permissive(merged: &Subject, reference: &Subject, from: u64) -> Result<(), TestCaseError> {
    for at in sample_times_from(merged, from) {
        for cost in costs(merged) {
            prop_assert!(reference.admits(at, cost) || !merged.admits(at, cost), "cost {} at {}", cost, at);
        }
        prop_assert!(merged.remaining(at) <= reference.remaining(at));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_merged_state_admits_only_what_both_would((subject, first, second) in with_two_orderly_runs(subjects())) {
        let (mut a, mut b) = (subject.clone(), subject);
        a.play(&first);
        b.play(&second);
        let from = last(&first, &second);
        for (into, other) in [(&a, &b), (&b, &a)] {
            let mut merged = into.clone();
            merged.merge(other);
            assert_not_more_permissive(&merged, &a, from)?;
            assert_not_more_permissive(&merged, &b, from)?;
            // A warm-up is full when it is cold, and the colder of two is cold earlier.
            prop_assert!(merged.is_warm_up() || merged.full_at() >= a.full_at().max(b.full_at()));
        }
    }

    #[test]
    fn merging_with_the_fresh_state_changes_no_verdict((subject, first, _) in with_two_orderly_runs(subjects())) {
        let mut used = subject.clone();
        used.play(&first);
        let (mut one_way, mut other_way) = (used.clone(), subject.clone());
        one_way.merge(&subject);
        other_way.merge(&used);
        for at in sample_times_from(&used, last(&first, &[])) {
            for cost in costs(&used) {
                prop_assert_eq!(one_way.check(at, cost), used.check(at, cost));
                prop_assert_eq!(other_way.check(at, cost), used.check(at, cost));
            }
        }
    }

    /// Reservations of both keys stay counted, and returning one key's reservation frees nothing of the other's.
    #[test]
    fn reservations_survive_a_merge((subject, first, second) in with_two_orderly_runs(holdable()), later in 0..5_000_000_000u64) {
        let (mut a, mut b) = (subject.clone(), subject);
        let mut out = Vec::new();
        for one in &first {
            if a.admits(one.at, one.cost) {
                out.push(a.commit(one.at, one.cost, one.cost % 2 == 0));
            }
        }
        for one in &second {
            if b.admits(one.at, one.cost) {
                b.commit(one.at, one.cost, one.cost % 2 == 0);
            }
        }
        let mut merged = a.clone();
        merged.merge(&b);
        let from = last(&first, &second);
        assert_not_more_permissive(&merged, &a, from)?;
        assert_not_more_permissive(&merged, &b, from)?;
        for taken in out.into_iter().filter(|taken| taken.reserved) {
            merged.settle(taken, 0, from + later);
        }
        assert_not_more_permissive(&merged, &b, from + later)?;
    }
}
