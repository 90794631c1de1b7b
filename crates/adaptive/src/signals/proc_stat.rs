//! `/proc/stat`: CPU time of the host.
//!
//! Accounting rules:
//!
//! - **iowait** is idle. A CPU that waits for a disk could run other tasks.
//! - **steal** is busy. In that time a virtual CPU had work and the host ran another guest: no more is
//!   available, so a machine with a third stolen is saturated at two thirds of its own work.
//! - **guest** is included in user, and guest_nice in nice: they are not counted twice.

/// CPU time since boot, summed over all CPUs, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostTime {
    /// Busy time.
    pub(super) busy: u64,
    /// Idle time.
    pub(super) idle: u64,
}

/// Parses the line `cpu  user nice system idle iowait irq softirq steal guest guest_nice`. Old kernels have
/// fewer fields.
pub(super) fn parse(text: &str) -> Option<HostTime> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut ticks = [0u64; 8];
    let mut known = 0;
    for (tick, field) in ticks.iter_mut().zip(line.split_ascii_whitespace()) {
        *tick = field.parse().ok()?;
        known += 1;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let busy = [user, nice, system, irq, softirq, steal].into_iter().fold(0, u64::saturating_add);
    (known >= 4).then_some(HostTime { busy, idle: idle.saturating_add(iowait) })
}

/// Number of CPUs online: those with a line of their own.
pub(super) fn cpus(text: &str) -> Option<usize> {
    let numbered =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(text.lines().filter(numbered).count()).filter(|cpus| *cpus > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_disks_is_idle_and_stolen_time_is_busy() {
        let text = "cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
        assert_eq!(parse(text), Some(HostTime { busy: 100 + 20 + 30 + 6 + 7 + 80, idle: 4_500 }));
        assert_eq!(cpus(text), Some(2));
        assert_eq!(parse("cpu  1 2 3 4\n"), Some(HostTime { busy: 6, idle: 4 }));
        for broken in ["", "cpu", "cpu  1 2 3", "cpu  1 2 x 4", "cpu0 1 2 3 4"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert_eq!(cpus("cpu  1 2 3 4\n"), None);
    }
}
