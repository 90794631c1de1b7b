//! Invariants of every algorithm.

use proptest::prelude::*;
use sluicegate_engine::algorithm::Check;

use super::subject::{costs, counting, subjects, with_arrivals};

proptest! {
    /// A refused request has no effect.
    #[test]
    fn a_refusal_changes_nothing((subject, arrivals) in with_arrivals(subjects())) {
        let (mut all, mut admitted_only) = (subject.clone(), subject);
        for one in arrivals {
            let verdict = all.take(one.at, one.cost);
            if matches!(verdict, Check::Now | Check::After(_)) {
                prop_assert_eq!(admitted_only.take(one.at, one.cost), verdict);
            }
            prop_assert_eq!(&all.state, &admitted_only.state);
        }
    }

    #[test]
    fn shifting_all_times_changes_nothing((subject, arrivals) in with_arrivals(subjects()), shift in 1..1_000_000u64) {
        let shift = shift * subject.grid();
        let (mut here, mut there) = (subject.clone(), subject);
        for one in arrivals {
            prop_assert_eq!(here.take(one.at, one.cost), there.take(one.at + shift, one.cost));
            prop_assert_eq!(here.remaining(one.at), there.remaining(one.at + shift));
            prop_assert_eq!(here.reset(one.at), there.reset(one.at + shift));
        }
    }

    /// A zero-cost read is admitted in any state and changes nothing.
    #[test]
    fn a_cost_of_zero_is_admitted_and_takes_nothing((mut subject, arrivals) in with_arrivals(subjects()), hold in any::<bool>()) {
        for one in arrivals {
            subject.take(one.at, one.cost);
            let before = subject.state.clone();
            prop_assert_eq!(subject.check(one.at, 0), Check::Now);
            prop_assert_eq!(subject.check_departure(one.at, 0), Check::Now);
            subject.commit(one.at, 0, hold);
            prop_assert_eq!(&subject.state, &before);
        }
    }

    /// `Never` is returned exactly if the cost exceeds the limit itself.
    #[test]
    fn only_more_than_the_limit_is_never_admitted((mut subject, arrivals) in with_arrivals(subjects()), more in any::<u64>()) {
        let capacity = subject.limit.capacity();
        for one in arrivals {
            subject.take(one.at, one.cost);
            for cost in costs(&subject) {
                prop_assert_ne!(subject.check(one.at, cost), Check::Never);
            }
            if capacity < u64::MAX {
                prop_assert_eq!(subject.check(one.at, capacity + 1), Check::Never);
                prop_assert_eq!(subject.check_departure(one.at, capacity + 1), Check::Never);
                prop_assert_eq!(subject.check(one.at, more.max(capacity + 1)), Check::Never);
            }
        }
    }

    /// The reported remaining amount is admitted, and not one unit more.
    #[test]
    fn remaining_is_exactly_admissible((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            subject.take(one.at, one.cost);
            let remaining = subject.remaining(one.at);
            prop_assert!(remaining <= subject.limit.capacity());
            prop_assert!(subject.admits(one.at, remaining));
            prop_assert!(!subject.admits(one.at, remaining + 1));
        }
    }

    /// remaining + used = limit: a charge reduces the remaining amount by exactly its cost at that instant.
    #[test]
    fn taking_reduces_remaining_by_the_cost((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            let before = subject.remaining(one.at);
            let taken = if subject.admits(one.at, one.cost) { one.cost } else { 0 };
            subject.take(one.at, one.cost);
            prop_assert_eq!(subject.remaining(one.at) + taken, before);
        }
    }

    /// A cost of n is never cheaper than n calls of cost one.
    #[test]
    fn one_large_cost_equals_many_small_ones((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            let cost = one.cost.min(300);
            let mut separate = subject.clone();
            let admitted_separately = (0..cost).take_while(|_| separate.take(one.at, 1) != Check::Never && {
                separate.remaining(one.at) < subject.remaining(one.at)
            }).count() as u64;
            if subject.admits(one.at, cost) {
                prop_assert!(admitted_separately >= cost, "{} of {} fit one by one", admitted_separately, cost);
                subject.take(one.at, cost);
                prop_assert_eq!(subject.remaining(one.at), separate.remaining(one.at));
            }
        }
    }
}
