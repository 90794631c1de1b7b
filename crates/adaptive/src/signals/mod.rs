//! Reading the machine: load, CPU, memory, connections and traffic.
//!
//! [`Machine::read`] reads everything in one go, so that all conditions of a tick look at the same moment. Files are
//! kept open, and a look at all of them takes some tens of microseconds. One file here per source; each parser is a
//! pure function of the text, and answers `None` to anything that it does not understand.
//!
//! | signal | in a control group | otherwise |
//! |---|---|---|
//! | `load1`, `load5` | `/proc/loadavg` | the same |
//! | `load_per_core` | `load1`, by the cores this process may use | the same |
//! | `cpu` | `cpu.stat` or `cpuacct.usage`, of the cores this process may use | `/proc/stat` |
//! | `host_cpu` | `/proc/stat` | the same |
//! | `cpu_pressure` | `cpu.pressure` | `/proc/pressure/cpu` |
//! | `cpu_throttled` | `cpu.stat` | never |
//! | `memory` | `memory.current` without files read long ago, of `memory.max` | `/proc/meminfo` |
//! | `connections` | what the program says, else TCP sockets of `/proc/net/sockstat` | the same |
//! | `traffic` | `/proc/net/dev` without the loopback | the same |
//!
//! The cores this process may use are the fewest of: those online, those it may run on, and the quotas of its control
//! group and all above it.
//!
//! ```
//! use sluicegate_adaptive::signals::Machine;
//! use sluicegate_engine::{Timestamp, rule::Signal};
//!
//! let mut machine = Machine::new();
//! let readings = machine.read(Timestamp::ZERO);
//! assert_eq!(readings.get(Signal::Cpu), None); // a difference of two looks: not known yet
//! ```

mod cgroup;
mod cpu_list;
mod fields;
mod loadavg;
mod meminfo;
mod net_dev;
mod proc_stat;
mod psi;
mod rate;
mod self_stat;
mod sockstat;
mod source;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Signal;

use crate::law::MachineFacts;
use crate::readings::{Reading, Readings};
use cgroup::{CpuUse, Groups};
use rate::Rate;
use source::Source;
use watch::Watch;

/// How often it is looked whether limits have changed. They seldom do.
const LIMITS_EVERY: Duration = Duration::from_secs(5);

/// The machine this process runs on, as far as it may use it.
pub struct Machine {
    root: PathBuf,
    loadavg: Source,
    stat: Source,
    pressure: Source,
    meminfo: Source,
    sockstat: Source,
    sockstat6: Source,
    net_dev: Source,
    self_stat: Source,
    groups: Groups,
    limits_read: Option<Timestamp>,
    host_used: Rate,
    pressed: Rate,
    moved: Rate,
    connections: Option<Box<dyn Fn() -> usize + Send + Sync>>,
    facts: MachineFacts,
    watch: Watch,
    buffer: Vec<u8>,
}

impl Machine {
    /// This machine.
    pub fn new() -> Self {
        Self::at("/")
    }

    /// A machine whose `proc` and `sys` are in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let source = |path: &str| Source::new(root.join(path));
        Self {
            loadavg: source("proc/loadavg"),
            stat: source("proc/stat"),
            pressure: source("proc/pressure/cpu"),
            meminfo: source("proc/meminfo"),
            sockstat: source("proc/net/sockstat"),
            sockstat6: source("proc/net/sockstat6"),
            net_dev: source("proc/net/dev"),
            self_stat: source("proc/self/stat"),
            root,
            groups: Groups::default(),
            limits_read: None,
            host_used: Rate::default(),
            pressed: Rate::default(),
            moved: Rate::default(),
            connections: None,
            facts: MachineFacts::default(),
            watch: Watch::default(),
            buffer: Vec::with_capacity(8_192),
        }
    }

    /// Asks the program how many connections are open, instead of counting the sockets of its network namespace.
    #[must_use]
    pub fn with_connections(mut self, open: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        self.connections = Some(Box::new(open));
        self
    }

    /// The cores this process may use, when it was last read.
    pub const fn cores(&self) -> Option<f64> {
        self.facts.cores
    }

    /// The CPU time used so far by this process's control group, or by the process where it is in none, when it was
    /// last read.
    pub const fn cpu_seconds(&self) -> Option<f64> {
        self.facts.cpu_seconds
    }

    /// What laws want to know besides signals, when it was last read.
    pub const fn facts(&self) -> MachineFacts {
        self.facts
    }

    /// Reads all signals. Those of requests are unknown: see [`Readings::with_requests`].
    pub fn read(&mut self, now: Timestamp) -> Readings {
        let due = self.limits_read.is_none_or(|read| now < read || now - read >= LIMITS_EVERY);
        if due {
            self.read_limits(now);
        }
        let cores = self.facts.cores;
        let load = self.loadavg.read_head(&mut self.buffer).and_then(loadavg::parse);
        let host = self.read_host_cpu(now);
        let cpu = self.read_cpu(now, host);
        self.facts.cpu_seconds = cpu.seconds;
        let load_per_core = load.zip(cores).map(|(load, cores)| load.one / cores);
        let connections = self.read_connections();
        let memory = self.read_memory();
        let known = [
            (Signal::Load1, Reading::at_once(load.map(|load| load.one))),
            (Signal::Load5, Reading::at_once(load.map(|load| load.five))),
            (Signal::LoadPerCore, Reading::at_once(load_per_core)),
            (Signal::Cpu, cpu.share),
            (Signal::HostCpu, host),
            (Signal::CpuPressure, self.read_pressure(now)),
            (Signal::CpuThrottled, cpu.throttled),
            (Signal::Memory, Reading::at_once(memory)),
            (Signal::Connections, Reading::at_once(connections)),
            (Signal::Traffic, self.read_traffic(now)),
        ];
        let mut readings = Readings::UNKNOWN;
        for (signal, known) in known {
            readings.note(signal, known);
            self.watch.see(signal, known);
        }
        readings
    }

    /// Finds the process's control groups and counts the cores it may use.
    fn read_limits(&mut self, now: Timestamp) {
        self.limits_read = Some(now);
        let buffer = &mut self.buffer;
        let mut read = |path: &str| Source::new(self.root.join(path)).read(buffer).map(str::to_owned);
        let (membership, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let allowed = read("proc/self/status").and_then(|status| cpu_list::allowed(&status));
        let online = read("sys/devices/system/cpu/online")
            .and_then(|online| cpu_list::count(&online))
            .or_else(|| proc_stat::cpus(&read("proc/stat")?));
        let memory = read("proc/meminfo").and_then(|text| meminfo::parse(&text)).map(|memory| memory.total);
        let (membership, mounts) = (membership.unwrap_or_default(), mounts.unwrap_or_default());
        let mut groups = Groups::find(&self.root, &membership, &mounts, memory, buffer);
        groups.keep_rates_of(&self.groups);
        self.groups = groups;
        let counted = [allowed, online].into_iter().flatten().map(|cpus| cpus as f64);
        self.facts.cores = counted.chain(self.groups.cores()).reduce(f64::min);
    }

    fn read_host_cpu(&mut self, now: Timestamp) -> Reading {
        // Only the first line is wanted of a file that has one for every interrupt.
        let time = self.stat.read_head(&mut self.buffer).and_then(proc_stat::parse);
        self.host_used.share(now, time.map(|time| (time.busy as f64, time.idle as f64)), None)
    }

    fn read_cpu(&mut self, now: Timestamp, host: Reading) -> CpuUse {
        if self.groups.count_cpu() {
            return self.groups.cpu(now, self.facts.cores, &mut self.buffer);
        }
        let seconds = self.self_stat.read(&mut self.buffer).and_then(self_stat::parse);
        // Without a quota there is nothing to run out of.
        CpuUse { seconds, share: host, throttled: Reading::Value(0.0) }
    }

    fn read_pressure(&mut self, now: Timestamp) -> Reading {
        let buffer = &mut self.buffer;
        let of_group = self.groups.pressure(buffer);
        let micros = of_group.unwrap_or_else(|| self.pressure.read(buffer).and_then(psi::parse));
        let share = self.pressed.per_second(now, micros.map(|micros| micros as f64 / 1e6));
        share.map(|share| share.clamp(0.0, 1.0))
    }

    fn read_memory(&mut self) -> Option<f64> {
        if self.groups.limit_memory() {
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
        // A machine without the newer protocol has no such file.
        let six = self.sockstat6.read(&mut self.buffer).and_then(sockstat::parse).unwrap_or(0);
        Some(four.saturating_add(six) as f64)
    }

    fn read_traffic(&mut self, now: Timestamp) -> Reading {
        let bytes = self.net_dev.read(&mut self.buffer).and_then(net_dev::parse);
        self.moved.per_second(now, bytes.map(|bytes| bytes as f64))
    }

    /// Where `proc` and `sys` are looked for.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("root", &self.root).field("facts", &self.facts).finish_non_exhaustive()
    }
}
