//! How many files this process may have open. Each connection is one.

/// Files a server has open besides its connections: listeners, logs, connections of its own, and refused
/// clients who are still being told.
pub(crate) const TO_SPARE: usize = 64 + crate::refusal::MOST_LINGERING;

/// The most files this process may open; `None` where the system does not say, or sets no bound.
pub(crate) fn limit() -> Option<usize> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// The soft limit in the text of `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_counts() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             62811                62811                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(limits), Some(1024));
        assert_eq!(soft_limit("Max open files            unlimited            unlimited            files"), None);
        assert_eq!(soft_limit(""), None);
        assert_eq!(soft_limit("Max open files"), None);
    }
}
