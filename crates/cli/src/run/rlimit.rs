//! Open file limit (`RLIMIT_NOFILE`): each connection is a file descriptor.
//!
//! Shells start with a soft limit of 1,024 for programs that use select(2), which fails beyond it. The hard limit
//! is the real maximum. This program does not use select, so it raises the soft limit and `ulimit -n` is not
//! needed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum that is requested: more than any machine has connections. Some systems report a thousand times as
/// many.
const MAX_OPEN_FILES: u64 = 1 << 20;

/// Raises the soft limit to the hard limit. Errors are ignored; a service that needs more reports it.
pub(super) fn raise_soft_limit() {
    let limits = getrlimit(Resource::Nofile);
    if let Some(current) = raised_limit(limits) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limits });
    }
}

/// The new soft limit, if it is higher than the current one. In an `Rlimit`, `None` means unlimited.
fn raised_limit(Rlimit { current, maximum }: Rlimit) -> Option<u64> {
    let allowed = maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
    current.is_some_and(|current| current < allowed).then_some(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_and_never_lowered() {
        let raised = |current, maximum| raised_limit(Rlimit { current, maximum });
        assert_eq!(raised(Some(1_024), Some(524_288)), Some(524_288));
        assert_eq!(raised(Some(1_024), None), Some(MAX_OPEN_FILES));
        assert_eq!(raised(Some(1_024), Some(1 << 30)), Some(MAX_OPEN_FILES));
        assert_eq!(raised(Some(4_096), Some(4_096)), None);
        assert_eq!(raised(Some(1 << 30), Some(1 << 30)), None);
        assert_eq!(raised(None, None), None);
    }
}
