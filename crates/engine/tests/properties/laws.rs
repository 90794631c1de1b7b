//! Laws that hold for every algorithm, whatever it counts.

use proptest::prelude::*;
use sluicegate_engine::algorithm::Check;

use crate::subject::{costs, counting, subjects, with_arrivals};

proptest! {
    /// Everybody who was refused might as well not have come.
    #[test]
    fn a_refusal_changes_nothing((subject, arrivals) in with_arrivals(subjects())) {
        let (mut all, mut welcome) = (subject.clone(), subject);
        for one in arrivals {
            let verdict = all.take(one.at, one.cost);
            if matches!(verdict, Check::Now | Check::After(_)) {
                prop_assert_eq!(welcome.take(one.at, one.cost), verdict);
            }
            prop_assert_eq!(&all.state, &welcome.state);
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

    /// A look: admitted however full it is, and leaving no trace.
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

    /// "Never" is said of what exceeds the limit itself, of nothing else, and always.
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

    /// What is said to remain can be had, and not one more.
    #[test]
    fn what_remains_is_what_can_be_had((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            subject.take(one.at, one.cost);
            let remaining = subject.remaining(one.at);
            prop_assert!(remaining <= subject.limit.capacity());
            prop_assert!(subject.admits(one.at, remaining));
            prop_assert!(!subject.admits(one.at, remaining + 1));
        }
    }

    /// remaining + used = limit: what is taken is missing at that instant, no more and no less.
    #[test]
    fn what_is_taken_is_what_goes_missing((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            let before = subject.remaining(one.at);
            let taken = if subject.admits(one.at, one.cost) { one.cost } else { 0 };
            subject.take(one.at, one.cost);
            prop_assert_eq!(subject.remaining(one.at) + taken, before);
        }
    }

    /// A cost of n is never cheaper than n calls of cost one.
    #[test]
    fn a_large_cost_is_as_dear_as_many_small_ones((mut subject, arrivals) in with_arrivals(counting())) {
        for one in arrivals {
            let cost = one.cost.min(300);
            let mut apart = subject.clone();
            let admitted_apart = (0..cost).take_while(|_| apart.take(one.at, 1) != Check::Never && {
                apart.remaining(one.at) < subject.remaining(one.at)
            }).count() as u64;
            if subject.admits(one.at, cost) {
                prop_assert!(admitted_apart >= cost, "{} of {} fit one by one", admitted_apart, cost);
                subject.take(one.at, cost);
                prop_assert_eq!(subject.remaining(one.at), apart.remaining(one.at));
            }
        }
    }
}
