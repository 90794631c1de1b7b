//! The running program and its successors.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::support::endpoint::TestEndpoint;
use super::support::temp_dir::TempDir;
use super::support::{TEST_TIMEOUT, wait_until};

pub(crate) struct Program {
    pub(crate) folder: TempDir,
    first: Child,
    /// Process id of the current process.
    current_pid: u32,
}

/// Command that runs the program with this rule file in the folder; it logs to `log` there.
fn command(folder: &TempDir, rules: &str) -> Command {
    let file = folder.write("rules.yaml", rules);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.arg("run").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(folder.file_path("log")).unwrap());
    command
}

/// Runs the program with an invalid rule file; returns its error output. The exit code must be 1.
pub(crate) async fn startup_failure(folder: &TempDir, rules: &str) -> String {
    let log = || fs::read_to_string(folder.file_path("log")).unwrap();
    let mut child = command(folder, rules).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > TEST_TIMEOUT || is_serving(&log()) {
            drop(child.kill());
            drop(child.wait());
            panic!("it runs with {rules}: {}", log());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(status.code(), Some(1), "{rules}: {}", log());
    assert!(!log().contains("panicked"), "{rules}: {}", log());
    log()
}

impl Program {
    /// Starts the program and waits until it serves.
    pub(crate) async fn start(folder: TempDir, rules: &str) -> Self {
        let first = command(&folder, rules).spawn().unwrap();
        let now = first.id();
        let mut program = Self { folder, first, current_pid: now };
        wait_until("it serves", async || {
            assert!(program.first.try_wait().unwrap().is_none(), "it ended: {}", program.log());
            is_serving(&program.log())
        })
        .await;
        program
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.file_path("log")).unwrap()
    }

    /// Network address of a protocol, from the banner.
    pub(crate) fn address(&self, protocol: &str) -> TestEndpoint {
        let log = self.log();
        let service = match protocol {
            "RLS" => "Envoy rate limit service at ".to_owned(),
            _ => format!("{protocol} decision server at "),
        };
        let line = log.lines().find_map(|line| line.strip_prefix(&service));
        let address = line.unwrap_or_else(|| panic!("no {protocol}: {log}")).split(' ').next().unwrap();
        TestEndpoint::Tcp(address.parse().unwrap())
    }

    /// Address of the gateway.
    pub(crate) fn gateway(&self) -> TestEndpoint {
        let log = self.log();
        let line = log.lines().find_map(|line| line.strip_prefix("listening at ")).unwrap();
        TestEndpoint::Tcp(line.parse::<SocketAddr>().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        assert!(kill.args(["-s", name, &self.current_pid.to_string()]).status().unwrap().success());
    }

    /// Restarts the program and waits until the old process has exited.
    pub(crate) async fn restart(&mut self) {
        let (takeovers, old) = (self.log().matches("has taken over").count(), self.current_pid);
        self.signal("USR2");
        wait_until("the successor takes over", async || {
            assert!(!self.log().contains("the old process continues to serve"), "{}", self.log());
            self.log().matches("has taken over").count() == takeovers + 1
        })
        .await;
        let log = self.log();
        let line = log.lines().rfind(|line| line.contains("has taken over")).unwrap();
        self.current_pid = line.split_once("process ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        if old == self.first.id() {
            assert!(self.wait_first_exit().await.success());
        } else {
            wait_until("the old process ends", async || has_exited(old)).await;
        }
    }

    async fn wait_first_exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("it ends", async || {
            status = self.first.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Stops the program and waits for its exit.
    pub(crate) async fn stop(&mut self) {
        self.signal("TERM");
        if self.current_pid == self.first.id() {
            assert_eq!(self.wait_first_exit().await.code(), Some(0), "{}", self.log());
        } else {
            wait_until("it ends", async || has_exited(self.current_pid)).await;
        }
        assert!(!self.log().contains("were aborted"), "{}", self.log());
    }

    /// Kills the program, like a crash.
    pub(crate) async fn kill(&mut self) {
        self.signal("KILL");
        if self.current_pid == self.first.id() {
            self.wait_first_exit().await;
        } else {
            wait_until("the process exits", async || has_exited(self.current_pid)).await;
        }
    }

    /// Number of open file descriptors.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.current_pid)).unwrap().count()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !has_exited(self.current_pid) && self.current_pid != self.first.id() {
            self.signal("KILL");
        }
        drop(self.first.kill());
        drop(self.first.wait());
    }
}

/// True if the log contains the banner of the decision server.
fn is_serving(log: &str) -> bool {
    log.contains(" decision server at ") || log.contains("Envoy rate limit service at ")
}

/// True if a process has exited, even if it is still a zombie.
fn has_exited(process: u32) -> bool {
    fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}
