//! Parsers for cgroup v1 files.

use crate::signals::parse::{field_value, single_number};

/// Cores allowed by `cpu.cfs_quota_us` and `cpu.cfs_period_us`. `None` if unlimited, a quota of -1.
pub(in crate::signals) fn cores(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (single_number(quota)?, single_number(period)?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// CPU time so far in nanoseconds, from `cpuacct.usage`.
pub(in crate::signals) fn usage(text: &str) -> Option<u64> {
    single_number(text)
}

/// Bytes allowed by `memory.limit_in_bytes`. Without a limit the file holds a huge number.
pub(in crate::signals) fn memory_limit(text: &str) -> Option<u64> {
    single_number(text).filter(|bytes| *bytes < 1 << 60)
}

/// Reclaimable bytes in `memory.stat` (inactive page cache), including child cgroups.
pub(in crate::signals) fn reclaimable(text: &str) -> Option<u64> {
    field_value(text, "total_inactive_file").or_else(|| field_value(text, "inactive_file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(cores("150000\n", "100000\n"), Some(1.5));
        assert_eq!(cores("-1\n", "100000\n"), None);
        assert_eq!(cores("1\n", "0\n"), None);
        assert_eq!(usage("123456789\n"), Some(123_456_789));
        assert_eq!(memory_limit("9223372036854771712\n"), None);
        assert_eq!(memory_limit("1073741824\n"), Some(1 << 30));
        assert_eq!(reclaimable("inactive_file 1\ntotal_inactive_file 3\n"), Some(3));
    }
}
