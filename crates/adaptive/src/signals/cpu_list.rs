//! CPU lists in kernel format: `0-3,8,10-11`.

/// Number of CPUs in a list. `None` if it is empty or invalid.
pub(super) fn count(text: &str) -> Option<usize> {
    let mut all = 0usize;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        all = all.saturating_add(last.checked_sub(first)? as usize).saturating_add(1);
    }
    Some(all)
}

/// Number of CPUs the process may run on, by cpuset and affinity: `Cpus_allowed_list:` in
/// `/proc/self/status`.
pub(super) fn allowed(status: &str) -> Option<usize> {
    count(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_cpus_are_counted() {
        for (text, cpus) in [("0\n", 1), ("0-3\n", 4), ("0-3,8,10-11", 7), ("0-4294967295", 4_294_967_296)] {
            assert_eq!(count(text), Some(cpus), "{text}");
        }
        for broken in ["", "\n", "3-1", "0,,1", "a-b", "0-", "1 2"] {
            assert_eq!(count(broken), None, "{broken}");
        }
        assert_eq!(allowed("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), Some(2));
        assert_eq!(allowed("Name:\tx\n"), None);
    }
}
