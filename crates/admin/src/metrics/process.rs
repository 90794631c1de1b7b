//! The process itself, as Linux tells of it. What cannot be read is left out.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known of the process.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct ProcessReading {
    /// Since the beginning of 1970.
    pub(super) started: Option<f64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) most_files: Option<u64>,
}

/// The clock that `/proc` counts in. Linux gives programs nothing else than hundredths.
const TICKS: f64 = 100.0;

pub(super) fn read() -> ProcessReading {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    // The name of the program, which is in parentheses, may have anything in it.
    let fields: Vec<&str> =
        stat.as_deref().and_then(|stat| stat.rsplit_once(") ")).map_or("", |(_, rest)| rest).split(' ').collect();
    // As proc(5) counts them: the third is the first after the name.
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.trim().parse::<u64>().ok());
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) as f64 / TICKS);
    let started = field(22).zip(booted()).map(|(ticks, booted)| booted + ticks as f64 / TICKS);
    ProcessReading {
        started,
        cpu_seconds: cpu,
        resident_bytes: resident(),
        open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        most_files: most_files(),
    }
}

/// When the machine was started, since the beginning of 1970.
fn booted() -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split(' ').next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(seconds).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.checked_sub(uptime)?.as_secs_f64())
}

fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1 << 10)
}

fn most_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
