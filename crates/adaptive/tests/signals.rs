//! Signals read from files of hosts and containers, and from the test host.
//!
//! Every directory in `fixtures` is a host: `first` is its first state, `then` the files that differ at the
//! second sample. Its README lists those captured from real hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluicegate_adaptive::readings::Readings;
use sluicegate_adaptive::signals::HostSignals;
use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Signal;

/// Guard against a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Files of a host in a temporary directory.
struct Fixture {
    name: &'static str,
    root: PathBuf,
}

impl Fixture {
    fn new(name: &'static str, test: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("signals-{name}-{test}"));
        let _ = fs::remove_dir_all(&root);
        let fixture = Self { name, root };
        fixture.copy_state("first");
        fixture
    }

    fn copy_state(&self, state: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(self.name).join(state);
        copy_dir(&from, &self.root);
    }

    /// Uptime of the state in milliseconds, if the fixture has it.
    fn uptime(&self) -> Option<u64> {
        let text = fs::read_to_string(self.root.join("proc/uptime")).ok()?;
        let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
        Some((seconds * 1_000.0).round() as u64)
    }

    fn write(&self, path: &str, text: &[u8]) {
        fs::write(self.root.join(path), text).unwrap();
    }
}

/// Copies a directory over another. Files keep their inode: open handles see the new text.
fn copy_dir(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else { return };
    fs::create_dir_all(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::write(to, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000 + millis * 1_000_000)
}

/// Expected readings at the second sample.
struct ExpectedReadings {
    name: &'static str,
    cores: Option<f64>,
    cpu_seconds: Option<f64>,
    readings: [(Signal, Option<f64>); 10],
}

#[rustfmt::skip]
fn table() -> Vec<ExpectedReadings> {
    use Signal::*;
    let row = |name, cores, cpu_seconds, values: [Option<f64>; 10]| {
        let signals = [Load1, Load5, LoadPerCore, Cpu, HostCpu, CpuPressure, CpuThrottled, Memory, Connections, Traffic];
        let mut index = 0;
        ExpectedReadings { name, cores, cpu_seconds, readings: signals.map(|signal| { index += 1; (signal, values[index - 1]) }) }
    };
    let known = |values: [f64; 10]| values.map(Some);
    vec![
        //                            cores      cpu_seconds         load1 load5 /core  cpu   host   press throt memory conn   traffic
        row("bare-host",        Some(4.0),  Some(201.0),  known([3.2,  2.4,  0.8,  0.75, 0.75,  0.25, 0.0,  0.25,  150.0, 1_250_000.0])),
        row("systemd-service",  Some(8.0),  Some(1_002.0), known([4.0,  3.1,  0.5,  0.25, 0.75,  0.1,  0.0,  0.75,  44.0,  1_000.0])),
        row("docker-v2-quota",  Some(1.5),  Some(61.2),   known([6.0,  5.2,  4.0,  0.8,  0.2,   0.6,  0.4,  0.75,  11.0,  3_000_000.0])),
        // The container uses a fifth of the pod's quota, the pod nine tenths.
        row("kubernetes-pod",   Some(2.0),  Some(20.4),   known([24.0, 20.0, 12.0, 0.9,  0.5,   0.0,  0.5,  0.5,   70.0,  0.0])),
        // Captured from a real host. Its cgroups are the roots of their hierarchies: the host itself is read.
        row("microvm-v1",       Some(2.0),  Some(0.01),
            known([15.99, 11.88, 7.995, 1.0, 1.0, 3.301_254 / 3.44, 0.0, 3_853_460.0 / 24_684_100.0, 45.0, 0.0])),
        row("podman-v1",        Some(0.5),  Some(4.005_221_535),
            known([1.23, 2.93, 2.46, 0.527_076_205 / 0.7, 73.0 / 290.0, 0.208_865 / 1.4, 5.0 / 14.0,
                   (44_318_720.0 - 225_280.0) / 268_435_456.0, 0.0, 0.0])),
        // The outer cgroup is throttled more, the inner one has less memory left; CPU pressure is that of the
        // inner one.
        row("vm-v2",            Some(0.6),  Some(20.238_497),
            known([1.56, 0.37, 2.6, 1.0, 1_168.0 / 2_217.0, 12.105_405 / 14.81, 142.0 / 143.0, 42_983_424.0 / 134_217_728.0, 0.0, 0.0])),
        row("docker-v1-hybrid", Some(0.5),  Some(7.3),    known([1.0,  0.5,  2.0,  0.6,  0.1,   0.4,  0.1,  0.5,   6.0,   2_500.0])),
        row("old-kernel",       Some(2.0),  Some(1.0),
            [Some(0.1), Some(0.2), Some(0.05), Some(0.1), Some(0.1), None, Some(0.0), Some(0.25), Some(3.0), Some(0.0)]),
        row("broken",           None,       None,
            [None, None, None, None, None, None, Some(0.0), None, None, None]),
    ]
}

fn close(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(1.0),
        (one, other) => one == other,
    }
}

#[test]
fn fixtures_give_the_expected_readings() {
    for expected in table() {
        let fixture = Fixture::new(expected.name, "table");
        let mut host = HostSignals::with_root(&fixture.root);
        let (first, start) = (host.read(at(0)), fixture.uptime());
        for signal in [Signal::Cpu, Signal::HostCpu, Signal::CpuPressure, Signal::Traffic] {
            assert_eq!(first.get(signal), None, "{}: {} after one sample", expected.name, signal.name());
        }
        fixture.copy_state("then");
        let between = fixture.uptime().zip(start).map_or(1_000, |(then, first)| then - first);
        let then = host.read(at(between));
        for (signal, value) in expected.readings {
            let read = then.get(signal);
            assert!(close(read, value), "{}: {} is {value:?}, read as {read:?}", expected.name, signal.name());
        }
        assert!(close(host.cores(), expected.cores), "{}: {:?} cores", expected.name, host.cores());
        assert!(close(host.cpu_seconds(), expected.cpu_seconds), "{}: {:?}", expected.name, host.cpu_seconds());
        for signal in Signal::ALL.into_iter().filter(|signal| signal.is_per_rule()) {
            assert_eq!(then.get(signal), None, "request signals are unknown to the host");
        }
    }
}

#[test]
fn with_connections_overrides_sockstat() {
    let fixture = Fixture::new("docker-v2-quota", "connections");
    let mut host = HostSignals::with_root(&fixture.root).with_connections(|| 12_345);
    assert_eq!(host.read(at(0)).get(Signal::Connections), Some(12_345.0));
}

#[test]
fn a_signal_recovers_after_being_unreadable() {
    let fixture = Fixture::new("docker-v2-quota", "recovers");
    let mut host = HostSignals::with_root(&fixture.root);
    let cpu = |readings: Readings| readings.get(Signal::Cpu);
    host.read(at(0));
    fixture.copy_state("then");
    assert!(cpu(host.read(at(1_000))).is_some());
    fixture.write("sys/fs/cgroup/cpu.stat", b"\xff\xff");
    assert_eq!(cpu(host.read(at(1_250))), None);
    fixture.write("sys/fs/cgroup/cpu.stat", b"usage_usec 70000000\nnr_periods 0\nnr_throttled 0\n");
    assert_eq!(cpu(host.read(at(1_500))), None, "the first sample gives no rate");
    fixture.write("sys/fs/cgroup/cpu.stat", b"usage_usec 70300000\nnr_periods 0\nnr_throttled 0\n");
    assert!(close(cpu(host.read(at(2_500))), Some(0.2)));
    // Counter reset.
    fixture.write("sys/fs/cgroup/cpu.stat", b"usage_usec 100\nnr_periods 0\nnr_throttled 0\n");
    assert_eq!(cpu(host.read(at(2_750))), None);
}

#[test]
fn changed_limits_are_picked_up() {
    let fixture = Fixture::new("docker-v2-quota", "limits");
    let mut host = HostSignals::with_root(&fixture.root);
    host.read(at(0));
    assert_eq!(host.cores(), Some(1.5));
    fixture.write("sys/fs/cgroup/cpu.max", b"400000 100000\n");
    fixture.copy_state("then");
    fixture.write("sys/fs/cgroup/cpu.max", b"400000 100000\n");
    host.read(at(1_000));
    let readings = host.read(at(6_000));
    assert_eq!(host.cores(), Some(4.0));
    assert!(readings.get(Signal::Cpu).is_some(), "rates are retained");
}

#[test]
fn live_readings_are_plausible() {
    if !Path::new("/proc/stat").exists() {
        return;
    }
    let mut shares = vec![Signal::Cpu, Signal::HostCpu, Signal::CpuThrottled, Signal::Memory];
    if Path::new("/proc/pressure/cpu").exists() {
        shares.push(Signal::CpuPressure);
    }
    let mut host = HostSignals::new();
    let start = Instant::now();
    // Kernel counters advance in steps: sample until all have moved.
    let readings = loop {
        let readings = host.read(at(start.elapsed().as_millis() as u64));
        if shares.iter().all(|signal| readings.get(*signal).is_some()) || start.elapsed() > TIMEOUT {
            break readings;
        }
        std::thread::yield_now();
    };
    let value = |signal: Signal| readings.get(signal).unwrap_or_else(|| panic!("{} is unknown", signal.name()));
    for signal in shares {
        assert!((0.0..=1.0).contains(&value(signal)), "{} is {}", signal.name(), value(signal));
    }
    assert!(value(Signal::Memory) > 0.0);
    for signal in [Signal::Load1, Signal::Load5, Signal::LoadPerCore, Signal::Connections, Signal::Traffic] {
        assert!((0.0..1e12).contains(&value(signal)), "{} is {}", signal.name(), value(signal));
    }
    let cores = host.cores().unwrap();
    assert!(cores > 0.0 && cores <= 4_096.0, "{cores} cores");
    assert!(host.cpu_seconds().unwrap() >= 0.0);
}
