//! `/proc/self/stat`: the CPU time of this process alone.

/// The kernel's unit in this file, on every architecture we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time this process has used so far, in user and kernel mode, in seconds.
pub(super) fn parse(text: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may contain anything, parentheses too.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? as f64 + next()? as f64) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_may_be_anything() {
        let text = "77 (a) R (b) S 1 77 77 0 -1 4194304 98 0 0 0 150 50 9 9 20 0 1 0 2672789 3133440 362\n";
        assert_eq!(parse(text), Some(2.0));
        for broken in ["", "77 (a", "77 (a) S 1 2 3"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
