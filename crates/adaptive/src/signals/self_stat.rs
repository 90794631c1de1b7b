//! `/proc/self/stat`: CPU time of this process.

/// Unit of this file on all supported architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of this process so far, in user and kernel mode, in seconds.
pub(super) fn parse(text: &str) -> Option<f64> {
    // The second field is the program name in parentheses, which may itself contain parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? as f64 + next()? as f64) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_name_may_contain_parentheses() {
        let text = "77 (a) R (b) S 1 77 77 0 -1 4194304 98 0 0 0 150 50 9 9 20 0 1 0 2672789 3133440 362\n";
        assert_eq!(parse(text), Some(2.0));
        for broken in ["", "77 (a", "77 (a) S 1 2 3"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
