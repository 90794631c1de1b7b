//! Process metrics from `/proc`. Unreadable values are omitted.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Metrics of this process.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct ProcessStats {
    /// Start time since the Unix epoch, in seconds.
    pub(super) started: Option<f64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) max_files: Option<u64>,
}

/// Clock ticks per second in `/proc`; always 100 in user space on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn read() -> ProcessStats {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    // The program name in parentheses may contain any character.
    let fields: Vec<&str> =
        stat.as_deref().and_then(|stat| stat.rsplit_once(") ")).map_or("", |(_, rest)| rest).split(' ').collect();
    // Field numbers as in proc(5): the third field is the first after the name.
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.trim().parse::<u64>().ok());
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) as f64 / TICKS_PER_SECOND);
    let started = field(22).zip(boot_time()).map(|(ticks, booted)| booted + ticks as f64 / TICKS_PER_SECOND);
    ProcessStats {
        started,
        cpu_seconds: cpu,
        resident_bytes: resident_bytes(),
        open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        max_files: max_files(),
    }
}

/// Boot time since the Unix epoch, in seconds.
fn boot_time() -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split(' ').next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(seconds).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.checked_sub(uptime)?.as_secs_f64())
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1 << 10)
}

fn max_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
