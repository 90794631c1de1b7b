//! As many open files as this process may have: each connection is one.
//!
//! Shells begin with a soft limit of 1,024 for the sake of programs that call select(2), which fails beyond it. What the
//! machine's owner allows is the hard limit. Nothing here calls select, so nobody has to say `ulimit -n` first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than there are connections on any machine; some systems allow a thousand times as many, and mean nothing by it.
const PLENTY: u64 = 1 << 20;

/// Raises the soft limit to the hard one. If that is not possible, what there is has to do: who needs more says so.
pub(super) fn take_what_is_allowed() {
    let limits = getrlimit(Resource::Nofile);
    if let Some(current) = raised(limits) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limits });
    }
}

/// What the soft limit can be raised to, if it is lower than that. `None` is no limit.
fn raised(Rlimit { current, maximum }: Rlimit) -> Option<u64> {
    let allowed = maximum.unwrap_or(PLENTY).min(PLENTY);
    current.is_some_and(|current| current < allowed).then_some(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_and_never_lowered() {
        let raised = |current, maximum| raised(Rlimit { current, maximum });
        assert_eq!(raised(Some(1_024), Some(524_288)), Some(524_288));
        assert_eq!(raised(Some(1_024), None), Some(PLENTY));
        assert_eq!(raised(Some(1_024), Some(1 << 30)), Some(PLENTY));
        assert_eq!(raised(Some(4_096), Some(4_096)), None);
        assert_eq!(raised(Some(1 << 30), Some(1 << 30)), None);
        assert_eq!(raised(None, None), None);
    }
}
