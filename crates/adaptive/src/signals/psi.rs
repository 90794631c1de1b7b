//! Pressure stall information (PSI): `/proc/pressure/cpu` for the host, `cpu.pressure` for a cgroup.
//!
//! The averages in these files cover ten seconds and more, which is too slow. `total` is exact to the
//! microsecond and is converted to a share of the time since the last sample.

/// Microseconds in which at least one task waited, so far: `total=` in the line `some`.
pub(super) fn parse(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_counts() {
        let some = "some avg10=94.23 avg60=82.47 avg300=47.12 total=11769810232\n";
        assert_eq!(parse(&format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")), Some(11_769_810_232));
        for broken in ["", "some", "some avg10=1.00", "some total=x", "full total=7"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
