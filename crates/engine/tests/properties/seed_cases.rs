//! Cases of the project's requirements, with their numbers.

use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate};

use super::subject::{Subject, admitted};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 10_000 * SECOND;

fn limit(text: &str) -> sluicegate_engine::Rate {
    text.parse().unwrap()
}

fn count_admitted(subject: &mut Subject, times: impl Iterator<Item = u64>) -> usize {
    times.filter(|&at| admitted(subject.take(at, 1))).count()
}

/// Ten callers, thirty calls within a tenth of a second: the burst of 10 and the one token refilled meanwhile.
#[test]
fn thirty_calls_in_a_tenth_of_a_second_get_eleven_of_a_bucket_of_ten() {
    let bucket = || Subject::new(Limit::token_bucket(limit("10/s"), 10).unwrap());
    let spread = |last: u64| (0..30).map(move |i| START + i * last / 29);
    assert_eq!(count_admitted(&mut bucket(), spread(SECOND / 10)), 11);
    assert_eq!(count_admitted(&mut bucket(), spread(SECOND / 10 - 1)), 10);
    assert_eq!(count_admitted(&mut bucket(), spread(0)), 10);
}

/// Boundary of the fixed window: twice the limit within two nanoseconds. The sliding window has none.
#[test]
fn only_the_fixed_window_admits_a_double_burst_at_the_boundary() {
    let window = Duration::from_secs(1);
    let arrivals = || std::iter::repeat_n(START - 1, 20).chain(std::iter::repeat_n(START, 20));
    let mut fixed = Subject::new(Limit::fixed_window(5, window, Alignment::Epoch).unwrap());
    assert_eq!(count_admitted(&mut fixed, arrivals()), 10);
    for cells in [1, 2, 10, 1_000] {
        let mut sliding = Subject::new(Limit::sliding_window(5, window, cells).unwrap());
        assert_eq!(count_admitted(&mut sliding, arrivals()), 5, "{cells} cells");
    }
    let mut log = Subject::new(Limit::sliding_log(5, window).unwrap());
    assert_eq!(count_admitted(&mut log, arrivals()), 5);
}

/// Known weakness of the interpolated window: almost twice the limit within one window.
#[test]
fn an_adversary_gets_almost_twice_the_limit_from_the_interpolated_window() {
    let mut two = Subject::new(Limit::interpolated_window(100, Duration::from_secs(1)).unwrap());
    let first = count_admitted(&mut two, std::iter::repeat_n(START + SECOND - 1, 200));
    let second = count_admitted(&mut two, std::iter::repeat_n(START + 2 * SECOND - 2, 200));
    assert_eq!((first, second), (100, 99));
}

#[test]
fn fifteen_per_three_seconds_with_thirty_at_once() {
    let window = Duration::from_secs(3);
    let arrivals = || std::iter::repeat_n(START, 30);
    for limit in [
        Limit::fixed_window(15, window, Alignment::Epoch).unwrap(),
        Limit::fixed_window(15, window, Alignment::FirstUse).unwrap(),
        Limit::sliding_window(15, window, 30).unwrap(),
        Limit::sliding_log(15, window).unwrap(),
        Limit::interpolated_window(15, window).unwrap(),
    ] {
        assert_eq!(count_admitted(&mut Subject::new(limit), arrivals()), 15, "{limit}");
    }
    let mut bucket = Subject::new(Limit::token_bucket(limit("5/s"), 5).unwrap());
    assert_eq!(count_admitted(&mut bucket, arrivals()), 5);
}

/// The same with the leaky bucket: fifteen depart evenly, the last after 2.8 s.
#[test]
fn a_leaky_bucket_releases_fifteen_evenly() {
    let mut leaky = Subject::new(Limit::leaky_bucket(limit("5/s"), 15).unwrap());
    let mut left = Vec::new();
    for _ in 0..30 {
        match leaky.take(START, 1) {
            Check::Now => left.push(0),
            Check::After(delay) => left.push(delay),
            refused => assert_eq!(refused, Check::NotBefore(SECOND / 5)),
        }
    }
    assert_eq!(left, (0..15).map(|i| i * SECOND / 5).collect::<Vec<_>>());
    let history: Vec<_> = left.iter().map(|&at| AdmissionEvent { at, cost: 1 }).collect();
    bound::departures(&history, ExactRate::per_second(5)).unwrap();
}

/// A clock step back must neither remove tokens by a negative refill nor add any.
#[test]
fn a_clock_step_back_refills_nothing_and_takes_nothing() {
    let mut bucket = Subject::new(Limit::token_bucket(limit("10/s"), 10).unwrap());
    assert_eq!(count_admitted(&mut bucket, std::iter::repeat_n(START, 4)), 4);
    assert!(!bucket.admits(START - 3_600 * SECOND, 1));
    assert_eq!(bucket.remaining(START), 6);
    assert_eq!(count_admitted(&mut bucket, std::iter::repeat_n(START, 10)), 6);
    assert_eq!(bucket.check(START - SECOND, 1), Check::NotBefore(SECOND + SECOND / 10));
}

/// Window boundary with five per second: the sixth request waits exactly until the window's end.
#[test]
fn five_per_second_at_the_boundary() {
    let window = Duration::from_secs(1);
    let mut log = Subject::new(Limit::sliding_log(5, window).unwrap());
    let mut first_use = Subject::new(Limit::fixed_window(5, window, Alignment::FirstUse).unwrap());
    for subject in [&mut log, &mut first_use] {
        // The request that opens a window is admitted, not refused.
        assert_eq!(subject.take(START + 7, 1), Check::Now);
        assert_eq!(count_admitted(subject, std::iter::repeat_n(START + 7, 5)), 4);
        assert_eq!(subject.check(START + 7, 1), Check::NotBefore(SECOND));
        assert_eq!(subject.check(START + SECOND + 6, 1), Check::NotBefore(1));
        assert_eq!(count_admitted(subject, std::iter::repeat_n(START + SECOND + 7, 6)), 5);
    }
}

/// The reference's sorted set keyed requests by timestamp, so that simultaneous requests counted once.
#[test]
fn simultaneous_requests_are_counted_individually() {
    let mut log = Subject::new(Limit::sliding_log(100, Duration::from_secs(60)).unwrap());
    assert_eq!(count_admitted(&mut log, std::iter::repeat_n(START, 1_000)), 100);
}
