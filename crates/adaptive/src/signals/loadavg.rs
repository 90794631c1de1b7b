//! `/proc/loadavg`: average number of tasks that run, wait for a CPU or wait for a disk.
//!
//! It always covers the host, also inside a container. So a rule for containers should use
//! `load_per_core` with care, or `cpu` or `cpu_pressure` instead.

use super::parse::finite_number;

/// Load average over one and five minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Over one minute.
    pub(super) one: f64,
    /// Over five minutes.
    pub(super) five: f64,
}

/// Parses `0.52 0.58 0.59 1/389 12345`.
pub(super) fn parse(text: &str) -> Option<Load> {
    let mut fields = text.split_ascii_whitespace();
    let mut next = || finite_number(fields.next()?).filter(|load| *load >= 0.0);
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
