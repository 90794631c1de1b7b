//! `/proc/meminfo`: memory of the host.

use super::parse::field_value;

/// Memory of the host, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Total memory.
    pub(super) total: u64,
    /// Memory available without swapping: more than free memory, since caches can be reclaimed.
    pub(super) available: u64,
}

/// Parses `MemTotal` and `MemAvailable`.
pub(super) fn parse(text: &str) -> Option<Memory> {
    let bytes = |word| field_value(text, word)?.checked_mul(1_024);
    let total = bytes("MemTotal:").filter(|total| *total > 0)?;
    Some(Memory { total, available: bytes("MemAvailable:")?.min(total) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_count_as_available() {
        let text = "MemTotal:       24682416 kB\nMemFree:        18199204 kB\nMemAvailable:   22722712 kB\n";
        assert_eq!(parse(text), Some(Memory { total: 24_682_416 << 10, available: 22_722_712 << 10 }));
        for broken in
            ["", "MemTotal: 1 kB", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB"]
        {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
