//! Parsers for cgroup v2 files.

use crate::signals::parse::{field_value, single_number};

/// Contents of `cpu.stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::signals) struct CpuStat {
    /// CPU time so far, in microseconds.
    pub(in crate::signals) usage_usec: u64,
    /// Quota periods so far; `None` without a quota.
    pub(in crate::signals) periods: Option<super::Periods>,
}

/// Parses `cpu.stat`.
pub(in crate::signals) fn cpu_stat(text: &str) -> Option<CpuStat> {
    Some(CpuStat { usage_usec: field_value(text, "usage_usec")?, periods: super::periods(text) })
}

/// Cores allowed by `cpu.max`: quota and period, `150000 100000`. `None` if unlimited, `max 100000`.
pub(in crate::signals) fn cores(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace();
    let (quota, period): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Bytes allowed by `memory.max`. `None` if unlimited, `max`.
pub(in crate::signals) fn memory_limit(text: &str) -> Option<u64> {
    single_number(text)
}

/// Reclaimable bytes in `memory.stat`: inactive page cache.
pub(in crate::signals) fn reclaimable(text: &str) -> Option<u64> {
    field_value(text, "inactive_file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::cgroup::Periods;

    #[test]
    fn cpu() {
        let text =
            "usage_usec 5000\nuser_usec 4000\nsystem_usec 1000\nnr_periods 40\nnr_throttled 10\nthrottled_usec 7\n";
        let periods = Some(Periods { total: 40, throttled: 10 });
        assert_eq!(cpu_stat(text), Some(CpuStat { usage_usec: 5_000, periods }));
        assert_eq!(cpu_stat("usage_usec 5\n"), Some(CpuStat { usage_usec: 5, periods: None }));
        assert_eq!(cpu_stat("user_usec 5\n"), None);
        assert_eq!(cores("150000 100000\n"), Some(1.5));
        for unlimited in ["max 100000\n", "", "1", "1 0", "0 1", "x y"] {
            assert_eq!(cores(unlimited), None, "{unlimited}");
        }
    }

    #[test]
    fn memory() {
        assert_eq!(memory_limit("536870912\n"), Some(536_870_912));
        assert_eq!(memory_limit("max\n"), None);
        assert_eq!(reclaimable("anon 1\nfile 5\ninactive_anon 2\ninactive_file 3\n"), Some(3));
    }
}
