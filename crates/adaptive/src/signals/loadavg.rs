//! `/proc/loadavg`: how many tasks run, wait to, or wait for a disk, on average.
//!
//! It is always the whole machine's, inside of a container too. So a rule for containers rather looks at
//! `load_per_core` with care, at `cpu`, or at `cpu_pressure`.

use super::fields::finite;

/// The load over one and over five minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Over one minute.
    pub(super) one: f64,
    /// Over five minutes.
    pub(super) five: f64,
}

/// Reads `0.52 0.58 0.59 1/389 12345`.
pub(super) fn parse(text: &str) -> Option<Load> {
    let mut fields = text.split_ascii_whitespace();
    let mut next = || finite(fields.next()?).filter(|load| *load >= 0.0);
    Some(Load { one: next()?, five: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        assert_eq!(parse("4.52 2.76 1.61 7/150 11323\n"), Some(Load { one: 4.52, five: 2.76 }));
        for broken in ["", "4.52", "4.52 x", "nan 1.0", "-1 1"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
