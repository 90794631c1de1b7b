//! Host signals: load, CPU, memory, connections and network traffic.
//!
//! [`HostSignals::read`] reads all signals at once, so that all conditions of a tick see the same time. Files are
//! kept open, and reading all of them takes some tens of microseconds. There is one module per source; each
//! parser is a pure function of the text, and returns `None` for invalid text.
//!
//! | signal | in a cgroup | otherwise |
//! |---|---|---|
//! | `load1`, `load5` | `/proc/loadavg` | the same |
//! | `load_per_core` | `load1` per core this process may use | the same |
//! | `cpu` | `cpu.stat` or `cpuacct.usage`, of the cores this process may use | `/proc/stat` |
//! | `host_cpu` | `/proc/stat` | the same |
//! | `cpu_pressure` | `cpu.pressure` | `/proc/pressure/cpu` |
//! | `cpu_throttled` | `cpu.stat` | never |
//! | `memory` | `memory.current` without inactive page cache, of `memory.max` | `/proc/meminfo` |
//! | `connections` | reported by the program, else TCP sockets in `/proc/net/sockstat` | the same |
//! | `traffic` | `/proc/net/dev` without loopback | the same |
//!
//! The cores this process may use are the minimum of: CPUs online, its CPU affinity, and the quotas of its
//! cgroup and all cgroups above it.
//!
//! ```
//! use sluicegate_adaptive::signals::HostSignals;
//! use sluicegate_engine::{Timestamp, rule::Signal};
//!
//! let mut host = HostSignals::new();
//! let readings = host.read(Timestamp::ZERO);
//! assert_eq!(readings.get(Signal::Cpu), None); // needs two samples: not known yet
//! ```

mod availability;
mod cgroup;
mod cpu_list;
mod loadavg;
mod meminfo;
mod net_dev;
mod parse;
mod proc_file;
mod proc_stat;
mod psi;
mod rate;
mod self_stat;
mod sockstat;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Signal;

use crate::control_law::HostInfo;
use crate::readings::{Reading, Readings};
use availability::AvailabilityLog;
use cgroup::{CpuUsage, Groups};
use proc_file::ProcFile;
use rate::Rate;

/// Interval at which limits are read again. They rarely change.
const LIMITS_INTERVAL: Duration = Duration::from_secs(5);

/// Reader of the host signals, within the cgroup limits of this process.
pub struct HostSignals {
    root: PathBuf,
    loadavg: ProcFile,
    stat: ProcFile,
    pressure: ProcFile,
    meminfo: ProcFile,
    sockstat: ProcFile,
    sockstat6: ProcFile,
    net_dev: ProcFile,
    self_stat: ProcFile,
    groups: Groups,
    limits_read_at: Option<Timestamp>,
    host_used: Rate,
    cpu_pressure: Rate,
    network_bytes: Rate,
    connections: Option<Box<dyn Fn() -> usize + Send + Sync>>,
    host_info: HostInfo,
    availability: AvailabilityLog,
    buffer: Vec<u8>,
}

impl HostSignals {
    /// Reads this host.
    pub fn new() -> Self {
        Self::with_root("/")
    }

    /// Reads `proc` and `sys` below this directory.
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let file = |path: &str| ProcFile::new(root.join(path));
        Self {
            loadavg: file("proc/loadavg"),
            stat: file("proc/stat"),
            pressure: file("proc/pressure/cpu"),
            meminfo: file("proc/meminfo"),
            sockstat: file("proc/net/sockstat"),
            sockstat6: file("proc/net/sockstat6"),
            net_dev: file("proc/net/dev"),
            self_stat: file("proc/self/stat"),
            root,
            groups: Groups::default(),
            limits_read_at: None,
            host_used: Rate::default(),
            cpu_pressure: Rate::default(),
            network_bytes: Rate::default(),
            connections: None,
            host_info: HostInfo::default(),
            availability: AvailabilityLog::default(),
            buffer: Vec::with_capacity(8_192),
        }
    }

    /// Takes the number of open connections from the program instead of counting sockets of its network
    /// namespace.
    #[must_use]
    pub fn with_connections(mut self, open: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        self.connections = Some(Box::new(open));
        self
    }

    /// Cores this process may use, as of the last reading.
    pub const fn cores(&self) -> Option<f64> {
        self.host_info.cores
    }

    /// CPU time used so far by the process's cgroup, or by the process if it is in none, as of the last
    /// reading.
    pub const fn cpu_seconds(&self) -> Option<f64> {
        self.host_info.cpu_seconds
    }

    /// Host information for control laws, as of the last reading.
    pub const fn host_info(&self) -> HostInfo {
        self.host_info
    }

    /// Reads all signals. Request signals stay unknown: see [`Readings::with_requests`].
    pub fn read(&mut self, now: Timestamp) -> Readings {
        let due = self.limits_read_at.is_none_or(|read| now < read || now - read >= LIMITS_INTERVAL);
        if due {
            self.read_limits(now);
        }
        let cores = self.host_info.cores;
        let load = self.loadavg.read_head(&mut self.buffer).and_then(loadavg::parse);
        let host = self.read_host_cpu(now);
        let cpu = self.read_cpu(now, host);
        self.host_info.cpu_seconds = cpu.seconds;
        let load_per_core = load.zip(cores).map(|(load, cores)| load.one / cores);
        let connections = self.read_connections();
        let memory = self.read_memory();
        let all = [
            (Signal::Load1, Reading::from_option(load.map(|load| load.one))),
            (Signal::Load5, Reading::from_option(load.map(|load| load.five))),
            (Signal::LoadPerCore, Reading::from_option(load_per_core)),
            (Signal::Cpu, cpu.share),
            (Signal::HostCpu, host),
            (Signal::CpuPressure, self.read_pressure(now)),
            (Signal::CpuThrottled, cpu.throttled),
            (Signal::Memory, Reading::from_option(memory)),
            (Signal::Connections, Reading::from_option(connections)),
            (Signal::Traffic, self.read_traffic(now)),
        ];
        let mut readings = Readings::UNKNOWN;
        for (signal, reading) in all {
            readings.record(signal, reading);
            self.availability.record(signal, reading);
        }
        readings
    }

    /// Finds the process's cgroups and counts the cores it may use.
    fn read_limits(&mut self, now: Timestamp) {
        self.limits_read_at = Some(now);
        let buffer = &mut self.buffer;
        let mut read = |path: &str| ProcFile::new(self.root.join(path)).read(buffer).map(str::to_owned);
        let (membership, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let allowed = read("proc/self/status").and_then(|status| cpu_list::allowed(&status));
        let online = read("sys/devices/system/cpu/online")
            .and_then(|online| cpu_list::count(&online))
            .or_else(|| proc_stat::cpus(&read("proc/stat")?));
        let memory = read("proc/meminfo").and_then(|text| meminfo::parse(&text)).map(|memory| memory.total);
        let (membership, mounts) = (membership.unwrap_or_default(), mounts.unwrap_or_default());
        let mut groups = Groups::find(&self.root, &membership, &mounts, memory, buffer);
        groups.inherit_rates(&self.groups);
        self.groups = groups;
        let counted = [allowed, online].into_iter().flatten().map(|cpus| cpus as f64);
        self.host_info.cores = counted.chain(self.groups.cores()).reduce(f64::min);
    }

    fn read_host_cpu(&mut self, now: Timestamp) -> Reading {
        // Only the first line is needed of a file with one line per interrupt.
        let time = self.stat.read_head(&mut self.buffer).and_then(proc_stat::parse);
        self.host_used.share(now, time.map(|time| (time.busy as f64, time.idle as f64)), None)
    }

    fn read_cpu(&mut self, now: Timestamp, host: Reading) -> CpuUsage {
        if self.groups.has_cpu_accounting() {
            return self.groups.cpu(now, self.host_info.cores, &mut self.buffer);
        }
        let seconds = self.self_stat.read(&mut self.buffer).and_then(self_stat::parse);
        // Without a quota nothing is throttled.
        CpuUsage { seconds, share: host, throttled: Reading::Value(0.0) }
    }

    fn read_pressure(&mut self, now: Timestamp) -> Reading {
        let buffer = &mut self.buffer;
        let group_micros = self.groups.pressure(buffer);
        let micros = group_micros.unwrap_or_else(|| self.pressure.read(buffer).and_then(psi::parse));
        let share = self.cpu_pressure.per_second(now, micros.map(|micros| micros as f64 / 1e6));
        share.map(|share| share.clamp(0.0, 1.0))
    }

    fn read_memory(&mut self) -> Option<f64> {
        if self.groups.has_memory_limit() {
            return self.groups.memory(&mut self.buffer);
        }
        let memory = self.meminfo.read(&mut self.buffer).and_then(meminfo::parse)?;
        Some((memory.total - memory.available) as f64 / memory.total as f64)
    }

    fn read_connections(&mut self) -> Option<f64> {
        if let Some(open) = &self.connections {
            return Some(open() as f64);
        }
        let four = self.sockstat.read(&mut self.buffer).and_then(sockstat::parse)?;
        // A host without IPv6 has no such file.
        let six = self.sockstat6.read(&mut self.buffer).and_then(sockstat::parse).unwrap_or(0);
        Some(four.saturating_add(six) as f64)
    }

    fn read_traffic(&mut self, now: Timestamp) -> Reading {
        let bytes = self.net_dev.read(&mut self.buffer).and_then(net_dev::parse);
        self.network_bytes.per_second(now, bytes.map(|bytes| bytes as f64))
    }

    /// Root directory of `proc` and `sys`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Default for HostSignals {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HostSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSignals")
            .field("root", &self.root)
            .field("host_info", &self.host_info)
            .finish_non_exhaustive()
    }
}
