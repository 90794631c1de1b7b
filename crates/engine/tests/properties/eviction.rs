//! Eviction: from `full_at` on, a state equals the fresh state.

use proptest::prelude::*;
use sluicegate_engine::algorithm::NEVER_FULL;

use super::subject::{
    costs, holdable, orderly_arrivals, sample_times_from, subjects, with_arrivals, with_two_orderly_runs,
};

proptest! {
    #[test]
    fn a_recovered_state_equals_the_fresh_state(
        ((mut subject, arrivals), later) in with_arrivals(subjects()).prop_flat_map(|(subject, arrivals)| {
            let later = orderly_arrivals(&subject);
            (Just((subject, arrivals)), later)
        })
    ) {
        subject.play(&arrivals);
        let full_at = subject.full_at();
        if full_at == NEVER_FULL.as_nanos() {
            return Ok(());
        }
        let mut fresh = subject.fresh();
        for at in sample_times_from(&subject, full_at) {
            prop_assert_eq!(subject.remaining(at), fresh.remaining(at));
            for cost in costs(&subject) {
                prop_assert_eq!(subject.check(at, cost), fresh.check(at, cost), "cost {} at {}", cost, at);
            }
        }
        let begin = later[0].at;
        for one in later {
            let at = full_at + (one.at - begin);
            prop_assert_eq!(subject.take(at, one.cost), fresh.take(at, one.cost));
            prop_assert_eq!(subject.remaining(at), fresh.remaining(at));
        }
    }

    /// Before that, it is never more permissive.
    #[test]
    fn no_state_is_more_permissive_than_the_fresh_one((mut subject, arrivals) in with_arrivals(subjects())) {
        let fresh = subject.fresh();
        for one in arrivals {
            subject.take(one.at, one.cost);
            for cost in costs(&subject) {
                prop_assert!(fresh.admits(one.at, cost) || !subject.admits(one.at, cost));
            }
            prop_assert!(subject.remaining(one.at) <= fresh.remaining(one.at));
        }
    }

    /// A state with held permits or reservations is never evictable.
    #[test]
    fn a_state_with_reservations_is_never_full((mut subject, arrivals, _) in with_two_orderly_runs(holdable())) {
        for one in arrivals.iter().filter(|one| one.cost > 0) {
            if subject.admits(one.at, one.cost) {
                subject.commit(one.at, one.cost, true);
                prop_assert_eq!(subject.full_at(), NEVER_FULL.as_nanos());
            }
        }
    }
}
