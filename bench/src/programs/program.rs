//! Program under measurement: start with its own configuration file, memory usage, stop by process id.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::temp_dir::TempDir;

/// Timeout for start and stop; prevents a hanging run.
const LIFECYCLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Running program that listens on a port. Drop stops it and removes its directory.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Program {
    /// Starts a program and waits until it listens on `port`. `command` gets the path of the directory.
    pub(crate) fn start(name: &'static str, port: u16, dir: TempDir, command: impl FnOnce(&Path) -> Command) -> Self {
        let log = fs::File::create(dir.path().join("output.log")).expect("log file");
        let child = command(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("file handle clones"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let mut program = Self { name, child, port, dir };
        program.wait_until_listening();
        program
    }

    fn wait_until_listening(&mut self) {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.child.try_wait().expect("process state");
            assert!(
                ended.is_none() && started.elapsed() < LIFECYCLE_TIMEOUT,
                "{} does not listen: {}",
                self.name,
                self.output()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Display name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Listen port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Path of a file in the program's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Output of the program and its error log.
    pub(crate) fn output(&self) -> String {
        let read = |file| fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        format!("{}{}", read("output.log"), read("error.log"))
    }

    /// Resident bytes of all processes of the program; shared pages count once.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("/proc is mounted");
        let children = children.split_whitespace().map(|child| child.parse().expect("number"));
        children.chain([id]).map(proportional_bytes).sum()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // On SIGTERM, an nginx master stops its workers; on SIGKILL, it would leave them running.
        let id = self.child.id().to_string();
        drop(Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status());
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < LIFECYCLE_TIMEOUT {
            thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Proportional set size of a process: shared pages are divided among the processes that share them.
fn proportional_bytes(process: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).expect("smaps_rollup is readable");
    let kibibytes = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .and_then(|value| value.parse::<f64>().ok())
        .expect("Pss line in kB");
    kibibytes * 1024.0
}

/// Unused loopback port.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("free port");
    listener.local_addr().expect("local address").port()
}
