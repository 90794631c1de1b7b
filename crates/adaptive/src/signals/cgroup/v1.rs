//! Files of a control group, version 1.

use crate::signals::fields::{after_word, only_number};

/// The cores that `cpu.cfs_quota_us` and `cpu.cfs_period_us` allow. `None`: as many as there are, a quota of -1.
pub(in crate::signals) fn cores(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (only_number(quota)?, only_number(period)?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// CPU time used so far, in nanoseconds: `cpuacct.usage`.
pub(in crate::signals) fn usage(text: &str) -> Option<u64> {
    only_number(text)
}

/// The bytes that `memory.limit_in_bytes` allows. Without a limit it is a number beyond every machine's memory.
pub(in crate::signals) fn most_memory(text: &str) -> Option<u64> {
    only_number(text).filter(|bytes| *bytes < 1 << 60)
}

/// The bytes of `memory.stat` that are only there because nobody else wanted them, those of groups below included.
pub(in crate::signals) fn reclaimable(text: &str) -> Option<u64> {
    after_word(text, "total_inactive_file").or_else(|| after_word(text, "inactive_file"))
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
        assert_eq!(most_memory("9223372036854771712\n"), None);
        assert_eq!(most_memory("1073741824\n"), Some(1 << 30));
        assert_eq!(reclaimable("inactive_file 1\ntotal_inactive_file 3\n"), Some(3));
    }
}
