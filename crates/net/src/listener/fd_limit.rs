//! Open-file limit of the process. Each connection uses one file descriptor.

/// File descriptors reserved for everything else: listeners, logs, outgoing connections, and rejected
/// clients that still receive their response.
pub(crate) const RESERVED_FDS: usize = 64 + super::reject::MAX_LINGERING_CONNECTIONS;

/// Open-file limit of this process; `None` if it is unknown or unlimited.
pub(crate) fn open_file_limit() -> Option<usize> {
    parse_soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

/// Parses the soft limit from the text of `/proc/self/limits`.
fn parse_soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_is_parsed_from_proc_limits() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             62811                62811                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_soft_limit(limits), Some(1024));
        assert_eq!(parse_soft_limit("Max open files            unlimited            unlimited            files"), None);
        assert_eq!(parse_soft_limit(""), None);
        assert_eq!(parse_soft_limit("Max open files"), None);
    }
}
