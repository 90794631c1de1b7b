//! CPU and memory limits and usage of the process's cgroups (v1 and v2).
//!
//! A limit may be set at any level from the process's own cgroup up to the root: Kubernetes sets a pod's quota
//! on the cgroup above its containers. So every level is read, and the tightest one counts: the fewest cores,
//! and the level with the highest share of its CPU time or memory limit in use.
//!
//! The root of a hierarchy is the host. Its own files are ignored, and `/proc` is read instead.

pub(super) mod path;
pub(super) mod v1;
pub(super) mod v2;

use std::path::{Path, PathBuf};

use sluicegate_engine::Timestamp;

use super::parse::{field_value, single_number};
use super::proc_file::ProcFile;
use super::rate::Rate;
use super::{cpu_list, psi};
use crate::readings::Reading;
use path::{CgroupPath, Version};

/// Periods of a CPU quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Periods {
    pub(super) total: u64,
    /// Periods in which the quota was exhausted.
    pub(super) throttled: u64,
}

/// Parses the periods in `cpu.stat`, which both versions write alike.
pub(super) fn periods(text: &str) -> Option<Periods> {
    Some(Periods { total: field_value(text, "nr_periods")?, throttled: field_value(text, "nr_throttled")? })
}

/// The cgroups of this process, with the files read at every tick.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// From its own cgroup upwards; the levels above only if they have a quota.
    cpu: Vec<CpuLevel>,
    /// Levels with a limit, from its own cgroup upwards.
    memory: Vec<MemoryLevel>,
    pressure: Option<ProcFile>,
    /// Number of CPUs in its cpuset.
    cpus: Option<usize>,
}

#[derive(Debug)]
struct CpuLevel {
    version: Version,
    /// Cores of its quota.
    cores: Option<f64>,
    stat: ProcFile,
    /// CPU time file of cgroup v1.
    usage: Option<ProcFile>,
    used: Rate,
    throttled: Rate,
}

#[derive(Debug)]
struct MemoryLevel {
    version: Version,
    max_bytes: u64,
    current: ProcFile,
    stat: ProcFile,
}

/// CPU usage of the cgroups.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuUsage {
    /// CPU time of its own cgroup so far, in seconds.
    pub(super) seconds: Option<f64>,
    /// Share of the allowed CPU in use.
    pub(super) share: Reading,
    /// Share of periods in which a quota was exhausted.
    pub(super) throttled: Reading,
}

impl Groups {
    /// Finds the cgroups and reads their limits, which change rarely. A memory limit above the host's memory is
    /// ignored.
    pub(super) fn find(
        root: &Path,
        groups: &str,
        mounts: &str,
        host_memory: Option<u64>,
        buffer: &mut Vec<u8>,
    ) -> Self {
        let dirs_of = |path: Option<CgroupPath>| {
            path.map_or((Version::V2, Vec::new()), |path| (path.version, visible_dirs(root, &path)))
        };
        let (version, cpu) = dirs_of(path::for_controller("cpu", groups, mounts));
        let (_, accounts) = dirs_of(path::for_controller("cpuacct", groups, mounts));
        let (memory_version, memory) = dirs_of(path::for_controller("memory", groups, mounts));
        let (_, cpusets) = dirs_of(path::for_controller("cpuset", groups, mounts));
        let (_, unified) = dirs_of(path::unified(groups, mounts));
        Self {
            cpu: cpu_levels(version, &cpu, &accounts, buffer),
            memory: memory
                .iter()
                .filter_map(|dir| MemoryLevel::find(memory_version, dir, buffer))
                .filter(|level| host_memory.is_none_or(|all| level.max_bytes < all))
                .collect(),
            pressure: unified.first().map(|own| ProcFile::new(own.join("cpu.pressure"))).filter(ProcFile::exists),
            cpus: cpusets.iter().find_map(|dir| {
                let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
                names.into_iter().find_map(|name| cpu_list::count(ProcFile::new(dir.join(name)).read(buffer)?))
            }),
        }
    }

    /// Inherits the rates of unchanged cgroups.
    pub(super) fn inherit_rates(&mut self, before: &Self) {
        for level in &mut self.cpu {
            if let Some(before) = before.cpu.iter().find(|before| before.stat.same_path(&level.stat)) {
                (level.used, level.throttled) = (before.used, before.throttled);
            }
        }
    }

    /// True if the process is in a cgroup with CPU accounting.
    pub(super) fn has_cpu_accounting(&self) -> bool {
        !self.cpu.is_empty()
    }

    /// True if its memory is limited.
    pub(super) fn has_memory_limit(&self) -> bool {
        !self.memory.is_empty()
    }

    /// Cores that the cgroups allow. `None` if unlimited.
    pub(super) fn cores(&self) -> Option<f64> {
        let quotas = self.cpu.iter().filter_map(|level| level.cores);
        quotas.chain(self.cpus.map(|cpus| cpus as f64)).reduce(f64::min)
    }

    /// Reads CPU usage relative to this number of cores.
    pub(super) fn cpu(&mut self, now: Timestamp, cores: Option<f64>, buffer: &mut Vec<u8>) -> CpuUsage {
        let mut all = CpuUsage { seconds: None, share: Reading::NotYet, throttled: Reading::Value(0.0) };
        for (index, level) in self.cpu.iter_mut().enumerate() {
            let (seconds, periods) = level.read(buffer);
            let used = level.used.per_second(now, seconds);
            let level_cores = if index == 0 { cores } else { level.cores };
            let share =
                level_cores.map_or(Reading::Unreadable, |cores| used.map(|used| (used / cores).clamp(0.0, 1.0)));
            if index == 0 {
                (all.seconds, all.share) = (seconds, share);
            } else {
                all.share = all.share.max(share);
            }
            if level.cores.is_some() {
                let counts = periods
                    .map(|periods| (periods.throttled as f64, periods.total.saturating_sub(periods.throttled) as f64));
                // No period begins while nothing runs, so nothing is throttled either.
                all.throttled = all.throttled.max(level.throttled.share(now, counts, Some(0.0)));
            }
        }
        all
    }

    /// Highest share of a memory limit in use, over all levels.
    pub(super) fn memory(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        let mut shares = self.memory.iter_mut().map(|level| level.share(buffer));
        shares.try_fold(0.0, |highest: f64, share| Some(highest.max(share?)))
    }

    /// Microseconds in which tasks of its own cgroup waited for a CPU. The outer `None` means that there is no
    /// such file.
    pub(super) fn pressure(&mut self, buffer: &mut Vec<u8>) -> Option<Option<u64>> {
        let file = self.pressure.as_mut()?;
        Some(file.read(buffer).and_then(psi::parse))
    }
}

/// Directories of the process's cgroup and those above it, without the root of the hierarchy.
fn visible_dirs(root: &Path, path: &CgroupPath) -> Vec<PathBuf> {
    let under_root = |dir: PathBuf| root.join(dir.strip_prefix("/").unwrap_or(&dir));
    let mut dirs: Vec<PathBuf> = path.dirs().into_iter().map(under_root).collect();
    // The cgroup is not visible from here, as in a container without its own cgroup namespace.
    if dirs.first().is_some_and(|own| !own.is_dir()) {
        dirs.drain(..dirs.len() - 1);
    }
    let is_top = |dir: &PathBuf| match path.version {
        Version::V1 => dir.join("release_agent").exists(),
        Version::V2 => !dir.join("cgroup.events").exists(),
    };
    if dirs.last().is_some_and(is_top) {
        dirs.pop();
    }
    dirs
}

fn cpu_levels(version: Version, dirs: &[PathBuf], accounts: &[PathBuf], buffer: &mut Vec<u8>) -> Vec<CpuLevel> {
    let mut levels = Vec::new();
    for (index, dir) in dirs.iter().enumerate() {
        let mut read = |name: &str| ProcFile::new(dir.join(name)).read(buffer).map(str::to_owned);
        let cores = match version {
            Version::V2 => read("cpu.max").and_then(|max| v2::cores(&max)),
            Version::V1 => read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us")).and_then(|(q, p)| v1::cores(&q, &p)),
        };
        let usage = match version {
            Version::V2 => None,
            Version::V1 => {
                // Usually both controllers share one hierarchy.
                let same_dir = ProcFile::new(dir.join("cpuacct.usage"));
                let other_hierarchy =
                    || accounts.first().filter(|_| index == 0).map(|own| ProcFile::new(own.join("cpuacct.usage")));
                if same_dir.exists() { Some(same_dir) } else { other_hierarchy() }
            }
        };
        let stat = ProcFile::new(dir.join("cpu.stat"));
        let has_accounting = match version {
            Version::V2 => stat.exists(),
            Version::V1 => usage.as_ref().is_some_and(ProcFile::exists),
        };
        if has_accounting && (index == 0 || cores.is_some()) {
            levels.push(CpuLevel { version, cores, stat, usage, used: Rate::default(), throttled: Rate::default() });
        } else if index == 0 {
            // CPU accounting of the own cgroup is unavailable: the host is read instead.
            return levels;
        }
    }
    levels
}

impl CpuLevel {
    /// Reads the CPU time so far in seconds, and the quota periods.
    fn read(&mut self, buffer: &mut Vec<u8>) -> (Option<f64>, Option<Periods>) {
        match (self.version, &mut self.usage) {
            (Version::V2, _) => {
                let stat = self.stat.read(buffer).and_then(v2::cpu_stat);
                (stat.map(|stat| stat.usage_usec as f64 / 1e6), stat.and_then(|stat| stat.periods))
            }
            (Version::V1, usage) => {
                let nanos = usage.as_mut().and_then(|usage| usage.read(buffer).and_then(v1::usage));
                let periods = self.stat.read(buffer).and_then(periods);
                (nanos.map(|nanos| nanos as f64 / 1e9), periods)
            }
        }
    }
}

impl MemoryLevel {
    fn find(version: Version, dir: &Path, buffer: &mut Vec<u8>) -> Option<Self> {
        let (max, current) = match version {
            Version::V2 => ("memory.max", "memory.current"),
            Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        let text = ProcFile::new(dir.join(max)).read(buffer)?;
        let max_bytes = match version {
            Version::V2 => v2::memory_limit(text),
            Version::V1 => v1::memory_limit(text),
        };
        let (current, stat) = (ProcFile::new(dir.join(current)), ProcFile::new(dir.join("memory.stat")));
        Some(Self { version, max_bytes: max_bytes.filter(|max| *max > 0)?, current, stat })
    }

    fn share(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        let current = self.current.read(buffer).and_then(single_number)?;
        let stat = self.stat.read(buffer)?;
        let reclaimable = match self.version {
            Version::V2 => v2::reclaimable(stat),
            Version::V1 => v1::reclaimable(stat),
        };
        Some((current.saturating_sub(reclaimable?) as f64 / self.max_bytes as f64).min(1.0))
    }
}
