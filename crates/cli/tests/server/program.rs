//! The program, and those that took its place.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::folder::Folder;
use crate::support::place::Place;
use crate::support::{GUARD, until};

pub(crate) struct Program {
    pub(crate) folder: Folder,
    first: Child,
    /// The one that serves now.
    now: u32,
}

/// The program with a rule file of this text in the folder; what it says goes to `log` there.
fn command(folder: &Folder, rules: &str) -> Command {
    let file = folder.write("rules.yaml", rules);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.arg("run").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(folder.at("log")).unwrap());
    command
}

/// Runs the program with a rule file that it cannot serve by, and answers what it says. It must end with 1.
pub(crate) async fn refused(folder: &Folder, rules: &str) -> String {
    let log = || fs::read_to_string(folder.at("log")).unwrap();
    let mut child = command(folder, rules).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > GUARD || log().contains("decisions by") {
            drop(child.kill());
            drop(child.wait());
            panic!("it runs by {rules}: {}", log());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(status.code(), Some(1), "{rules}: {}", log());
    assert!(!log().contains("panicked"), "{rules}: {}", log());
    log()
}

impl Program {
    /// Starts it, and waits until it serves.
    pub(crate) async fn start(folder: Folder, rules: &str) -> Self {
        let first = command(&folder, rules).spawn().unwrap();
        let now = first.id();
        let mut program = Self { folder, first, now };
        until("it serves", async || {
            assert!(program.first.try_wait().unwrap().is_none(), "it ended: {}", program.log());
            program.log().contains("decisions by")
        })
        .await;
        program
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.at("log")).unwrap()
    }

    /// Where a protocol is spoken over the network, as the greeting says.
    pub(crate) fn place(&self, protocol: &str) -> Place {
        let log = self.log();
        let line = log.lines().find_map(|line| line.strip_prefix(&format!("decisions by {protocol} at ")));
        let address = line.unwrap_or_else(|| panic!("no {protocol}: {log}")).split(' ').next().unwrap();
        Place::Tcp(address.parse().unwrap())
    }

    /// Where its gateway listens.
    pub(crate) fn gateway(&self) -> Place {
        let log = self.log();
        let line = log.lines().find_map(|line| line.strip_prefix("listening at ")).unwrap();
        Place::Tcp(line.parse::<SocketAddr>().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        assert!(kill.args(["-s", name, &self.now.to_string()]).status().unwrap().success());
    }

    /// Restarts it, and waits until the old process has ended.
    pub(crate) async fn restart(&mut self) {
        let (told, old) = (self.log().matches("has taken over").count(), self.now);
        self.signal("USR2");
        until("another takes over", async || {
            assert!(!self.log().contains("the old one goes on"), "{}", self.log());
            self.log().matches("has taken over").count() == told + 1
        })
        .await;
        let log = self.log();
        let line = log.lines().rfind(|line| line.contains("has taken over")).unwrap();
        self.now = line.split_once("process ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        if old == self.first.id() {
            assert!(self.first_ended().await.success());
        } else {
            until("the old process ends", async || is_gone(old)).await;
        }
    }

    async fn first_ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("it ends", async || {
            status = self.first.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.signal("TERM");
        if self.now == self.first.id() {
            assert_eq!(self.first_ended().await.code(), Some(0), "{}", self.log());
        } else {
            until("it ends", async || is_gone(self.now)).await;
        }
        assert!(!self.log().contains("were cut off"), "{}", self.log());
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(&mut self) {
        self.signal("KILL");
        if self.now == self.first.id() {
            self.first_ended().await;
        } else {
            until("it is gone", async || is_gone(self.now)).await;
        }
    }

    /// How many files the process has open.
    pub(crate) fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.now)).unwrap().count()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !is_gone(self.now) && self.now != self.first.id() {
            self.signal("KILL");
        }
        drop(self.first.kill());
        drop(self.first.wait());
    }
}

/// Whether a process has ended; the system may still remember it.
fn is_gone(process: u32) -> bool {
    fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}
