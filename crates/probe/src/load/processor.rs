//! CPU time of this process, from `/proc` on Linux; unknown on other systems.

use std::fs;
use std::time::Duration;

/// Clock tick of `/proc`: 10 ms.
const TICK: Duration = Duration::from_millis(10);

/// CPU time used so far.
pub(super) fn cpu_time() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// CPU time between two readings, as a fraction of the time that all threads could have used.
pub(super) fn utilization(
    before: Option<Duration>,
    after: Option<Duration>,
    passed: Duration,
    threads: usize,
) -> Option<f64> {
    let used = after?.saturating_sub(before?);
    Some(used.as_secs_f64() / (passed.as_secs_f64() * threads as f64))
}

/// Parses `/proc/self/stat`. The program name in parentheses may contain anything. User and system time are
/// fields 14 and 15 of proc(5); field 3 is the first after the name.
fn parse(stat: &str) -> Option<Duration> {
    let mut times = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u32>().ok();
    Some(TICK * next()?.checked_add(next()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_parsed() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 9 0 0 0 150 25 0 0 20 0 5 0 100 1 2";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("42 (a) S 1 2"), None);
    }

    #[test]
    fn utilization_is_relative_to_all_threads() {
        let second = Duration::from_secs(1);
        assert_eq!(utilization(Some(second), Some(2 * second), second, 2), Some(0.5));
        assert_eq!(utilization(None, Some(second), second, 2), None);
    }
}
