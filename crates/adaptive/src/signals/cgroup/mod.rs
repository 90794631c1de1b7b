//! What this process's control groups allow and use.
//!
//! A limit may stand anywhere on the way from the process's own group up to the top: Kubernetes puts the quota of a
//! pod on the group above its containers. So every level is looked at, and the tightest counts: of cores, the fewest;
//! of time and memory, the level that has used up the most of what it may use, by whichever of its groups.
//!
//! The top of a hierarchy is no group: it is the machine. Its own files are left alone, and `/proc` is asked instead.

pub(super) mod place;
pub(super) mod v1;
pub(super) mod v2;

use std::path::{Path, PathBuf};

use sluicegate_engine::Timestamp;

use super::fields::{after_word, only_number};
use super::rate::Rate;
use super::source::Source;
use super::{cpu_list, psi};
use crate::readings::Reading;
use place::{Place, Version};

/// Periods of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Periods {
    pub(super) all: u64,
    /// Those in which it was used up.
    pub(super) throttled: u64,
}

/// Reads the periods of `cpu.stat`, which are written alike in both versions.
pub(super) fn periods(text: &str) -> Option<Periods> {
    Some(Periods { all: after_word(text, "nr_periods")?, throttled: after_word(text, "nr_throttled")? })
}

/// The groups of this process, and the files that are read at every tick.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// From its own group upwards; those above only if they have a quota.
    cpu: Vec<CpuLevel>,
    /// From its own group upwards, those with a limit.
    memory: Vec<MemoryLevel>,
    pressure: Option<Source>,
    /// The CPUs it may run on, by its cpuset.
    cpus: Option<usize>,
}

#[derive(Debug)]
struct CpuLevel {
    version: Version,
    /// The cores of its quota.
    cores: Option<f64>,
    stat: Source,
    /// Where version 1 keeps the time used.
    usage: Option<Source>,
    used: Rate,
    throttled: Rate,
}

#[derive(Debug)]
struct MemoryLevel {
    version: Version,
    most: u64,
    current: Source,
    stat: Source,
}

/// What the groups used of the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuUse {
    /// CPU time of its own group so far, in seconds.
    pub(super) seconds: Option<f64>,
    /// The share of what it may use.
    pub(super) share: Reading,
    /// The share of periods in which a quota was used up.
    pub(super) throttled: Reading,
}

impl Groups {
    /// Finds the groups, and reads what seldom changes: which limits there are. More memory than the machine has is no
    /// limit.
    pub(super) fn find(
        root: &Path,
        groups: &str,
        mounts: &str,
        host_memory: Option<u64>,
        buffer: &mut Vec<u8>,
    ) -> Self {
        let folders = |place: Option<Place>| {
            place.map_or((Version::V2, Vec::new()), |place| (place.version, seen_folders(root, &place)))
        };
        let (version, cpu) = folders(place::of_controller("cpu", groups, mounts));
        let (_, accounts) = folders(place::of_controller("cpuacct", groups, mounts));
        let (memory_version, memory) = folders(place::of_controller("memory", groups, mounts));
        let (_, cpusets) = folders(place::of_controller("cpuset", groups, mounts));
        let (_, unified) = folders(place::unified(groups, mounts));
        Self {
            cpu: cpu_levels(version, &cpu, &accounts, buffer),
            memory: memory
                .iter()
                .filter_map(|folder| MemoryLevel::find(memory_version, folder, buffer))
                .filter(|level| host_memory.is_none_or(|all| level.most < all))
                .collect(),
            pressure: unified.first().map(|own| Source::new(own.join("cpu.pressure"))).filter(Source::exists),
            cpus: cpusets.iter().find_map(|folder| {
                let names = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
                names.into_iter().find_map(|name| cpu_list::count(Source::new(folder.join(name)).read(buffer)?))
            }),
        }
    }

    /// Keeps what is known of the rates of groups that are still the same.
    pub(super) fn keep_rates_of(&mut self, before: &Self) {
        for level in &mut self.cpu {
            if let Some(before) = before.cpu.iter().find(|before| before.stat.is(&level.stat)) {
                (level.used, level.throttled) = (before.used, before.throttled);
            }
        }
    }

    /// Whether the process is in a group whose time is counted.
    pub(super) fn count_cpu(&self) -> bool {
        !self.cpu.is_empty()
    }

    /// Whether its memory is limited.
    pub(super) fn limit_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// The cores the groups allow. `None`: as many as there are.
    pub(super) fn cores(&self) -> Option<f64> {
        let quotas = self.cpu.iter().filter_map(|level| level.cores);
        quotas.chain(self.cpus.map(|cpus| cpus as f64)).reduce(f64::min)
    }

    /// What was used of the CPU, of so many cores.
    pub(super) fn cpu(&mut self, now: Timestamp, cores: Option<f64>, buffer: &mut Vec<u8>) -> CpuUse {
        let mut all = CpuUse { seconds: None, share: Reading::NotYet, throttled: Reading::Value(0.0) };
        for (nth, level) in self.cpu.iter_mut().enumerate() {
            let (seconds, periods) = level.read(buffer);
            let used = level.used.per_second(now, seconds);
            let of = if nth == 0 { cores } else { level.cores };
            let share = of.map_or(Reading::Unreadable, |cores| used.map(|used| (used / cores).clamp(0.0, 1.0)));
            if nth == 0 {
                (all.seconds, all.share) = (seconds, share);
            } else {
                all.share = all.share.highest(share);
            }
            if level.cores.is_some() {
                let counts = periods
                    .map(|periods| (periods.throttled as f64, periods.all.saturating_sub(periods.throttled) as f64));
                // No period begins while nothing runs, so nothing is throttled either.
                all.throttled = all.throttled.highest(level.throttled.share(now, counts, Some(0.0)));
            }
        }
        all
    }

    /// The share of memory that is used, at the level where it is highest.
    pub(super) fn memory(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        let mut shares = self.memory.iter_mut().map(|level| level.share(buffer));
        shares.try_fold(0.0, |highest: f64, share| Some(highest.max(share?)))
    }

    /// Microseconds in which work of its own group waited for a CPU. The outer `None`: the groups do not tell.
    pub(super) fn pressure(&mut self, buffer: &mut Vec<u8>) -> Option<Option<u64>> {
        let source = self.pressure.as_mut()?;
        Some(source.read(buffer).and_then(psi::parse))
    }
}

/// The folders of the process's group and those above it, without the top of the hierarchy.
fn seen_folders(root: &Path, place: &Place) -> Vec<PathBuf> {
    let under_root = |folder: PathBuf| root.join(folder.strip_prefix("/").unwrap_or(&folder));
    let mut folders: Vec<PathBuf> = place.folders().into_iter().map(under_root).collect();
    // A group that cannot be seen from here, as in a container without a namespace of its own.
    if folders.first().is_some_and(|own| !own.is_dir()) {
        folders.drain(..folders.len() - 1);
    }
    let is_top = |folder: &PathBuf| match place.version {
        Version::V1 => folder.join("release_agent").exists(),
        Version::V2 => !folder.join("cgroup.events").exists(),
    };
    if folders.last().is_some_and(is_top) {
        folders.pop();
    }
    folders
}

fn cpu_levels(version: Version, folders: &[PathBuf], accounts: &[PathBuf], buffer: &mut Vec<u8>) -> Vec<CpuLevel> {
    let mut levels = Vec::new();
    for (nth, folder) in folders.iter().enumerate() {
        let mut read = |name: &str| Source::new(folder.join(name)).read(buffer).map(str::to_owned);
        let cores = match version {
            Version::V2 => read("cpu.max").and_then(|max| v2::cores(&max)),
            Version::V1 => read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us")).and_then(|(q, p)| v1::cores(&q, &p)),
        };
        let usage = match version {
            Version::V2 => None,
            Version::V1 => {
                // Usually both controllers are one hierarchy.
                let beside = Source::new(folder.join("cpuacct.usage"));
                let elsewhere =
                    || accounts.first().filter(|_| nth == 0).map(|own| Source::new(own.join("cpuacct.usage")));
                if beside.exists() { Some(beside) } else { elsewhere() }
            }
        };
        let stat = Source::new(folder.join("cpu.stat"));
        let counted = match version {
            Version::V2 => stat.exists(),
            Version::V1 => usage.as_ref().is_some_and(Source::exists),
        };
        if counted && (nth == 0 || cores.is_some()) {
            levels.push(CpuLevel { version, cores, stat, usage, used: Rate::default(), throttled: Rate::default() });
        } else if nth == 0 {
            // The own group's time is not to be had: the machine is asked.
            return levels;
        }
    }
    levels
}

impl CpuLevel {
    /// The CPU time used so far, in seconds, and the quota's periods.
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
    fn find(version: Version, folder: &Path, buffer: &mut Vec<u8>) -> Option<Self> {
        let (most, current) = match version {
            Version::V2 => ("memory.max", "memory.current"),
            Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        let text = Source::new(folder.join(most)).read(buffer)?;
        let most = match version {
            Version::V2 => v2::most_memory(text),
            Version::V1 => v1::most_memory(text),
        };
        let (current, stat) = (Source::new(folder.join(current)), Source::new(folder.join("memory.stat")));
        Some(Self { version, most: most.filter(|most| *most > 0)?, current, stat })
    }

    fn share(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        let current = self.current.read(buffer).and_then(only_number)?;
        let stat = self.stat.read(buffer)?;
        let reclaimable = match self.version {
            Version::V2 => v2::reclaimable(stat),
            Version::V1 => v1::reclaimable(stat),
        };
        Some((current.saturating_sub(reclaimable?) as f64 / self.most as f64).min(1.0))
    }
}
