//! A program under measurement: started with a file of its own, asked for its memory, stopped by its id.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::folder::Folder;

/// How long a program may take to start or to stop. Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program that listens. Dropping it stops it and removes its folder.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    port: u16,
    folder: Folder,
}

impl Program {
    /// Starts one. `command` gets the folder's path; the program must then listen at `port`.
    pub(crate) fn start(name: &'static str, port: u16, folder: Folder, command: impl FnOnce(&Path) -> Command) -> Self {
        let log = fs::File::create(folder.path().join("said.log")).expect("a file for what it says");
        let child = command(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the same file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let mut program = Self { name, child, port, folder };
        program.wait_until_it_listens();
        program
    }

    fn wait_until_it_listens(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "{} does not listen: {}", self.name, self.said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it is called.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Where it listens.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Where a file of its folder is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it has complained about.
    pub(crate) fn said(&self) -> String {
        let read = |file| fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        format!("{}{}", read("said.log"), read("error.log"))
    }

    /// Resident bytes of all its processes. A page that several share counts once.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("Linux's /proc");
        let children = children.split_whitespace().map(|child| child.parse().expect("a number"));
        children.chain([id]).map(proportional_bytes).sum()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A master told to end ends its workers; one that is killed leaves them behind.
        let id = self.child.id().to_string();
        drop(Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process's resident memory, its shared pages divided among those who share them.
fn proportional_bytes(process: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).expect("the process's memory");
    let kibibytes = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .and_then(|value| value.parse::<f64>().ok())
        .expect("a Pss line in kB");
    kibibytes * 1024.0
}

/// A port of loopback that nobody listens at.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}
