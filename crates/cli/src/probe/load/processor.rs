//! How much of the processor this program takes, as Linux tells it; elsewhere it is not known.

use std::fs;
use std::time::Duration;

/// The clock that `/proc` counts in: hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// The time on processors so far.
pub(super) fn used() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// What was used between two readings, of what so many threads could have used.
pub(super) fn share(
    before: Option<Duration>,
    after: Option<Duration>,
    passed: Duration,
    threads: usize,
) -> Option<f64> {
    let used = after?.saturating_sub(before?);
    Some(used.as_secs_f64() / (passed.as_secs_f64() * threads as f64))
}

/// The program's name, which is in parentheses, may have anything in it. User and system time are the 14th and 15th
/// field, as proc(5) counts them; the third is the first after the name.
fn parse(stat: &str) -> Option<Duration> {
    let mut times = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u32>().ok();
    Some(TICK * next()?.checked_add(next()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 9 0 0 0 150 25 0 0 20 0 5 0 100 1 2";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("42 (a) S 1 2"), None);
    }

    #[test]
    fn a_share_is_of_what_all_threads_could_have() {
        let second = Duration::from_secs(1);
        assert_eq!(share(Some(second), Some(2 * second), second, 2), Some(0.5));
        assert_eq!(share(None, Some(second), second, 2), None);
    }
}
