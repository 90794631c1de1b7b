//! The running program and its successors.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::upstream::Upstream;

/// Guards against hanging tests; no measurement uses it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The program and its successors.
pub(crate) struct Program {
    pub(crate) at: SocketAddr,
    pub(crate) folder: PathBuf,
    pub(crate) first: Child,
    /// Process id of the current process.
    pub(crate) now: u32,
}

impl Program {
    /// Starts the program with this rule file, in which `LISTEN` is replaced by its address.
    pub(crate) fn start(name: &str, rules: &str, prepare: impl Fn(&Path)) -> Self {
        let folder = std::env::temp_dir().join(format!("sluicegate-run-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        prepare(&folder);
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        fs::write(folder.join("rules.yaml"), rules.replace("LISTEN", &at.to_string())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.arg("run").arg(folder.join("rules.yaml")).stdin(Stdio::null()).stdout(Stdio::null());
        let first = command.stderr(File::create(folder.join("log")).unwrap()).spawn().unwrap();
        let now = first.id();
        let mut program = Self { at, folder, first, now };
        wait_until("it listens", || {
            assert!(program.first.try_wait().unwrap().is_none(), "it ended: {}", program.log());
            program.log().contains("listening at")
        });
        program
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.now, name);
    }

    /// Restarts the program and waits until the old process has exited.
    pub(crate) fn restart(&mut self) {
        self.restart_by(|program| program.signal("USR2"));
    }

    /// The same with another trigger.
    pub(crate) fn restart_by(&mut self, trigger: impl FnOnce(&Self)) {
        let old = self.start_successor_by(trigger);
        if old == self.first.id() {
            assert!(wait_exit(&mut self.first).success());
        } else {
            wait_until("the old process ends", || has_exited(old));
        }
    }

    /// Starts a successor; returns the process id of the old process, which may still drain.
    pub(crate) fn start_successor(&mut self) -> u32 {
        self.start_successor_by(|program| program.signal("USR2"))
    }

    fn start_successor_by(&mut self, trigger: impl FnOnce(&Self)) -> u32 {
        let takeovers = self.log().matches("has taken over").count();
        trigger(self);
        wait_until("the successor takes over", || self.log().matches("has taken over").count() == takeovers + 1);
        let log = self.log();
        let line = log.lines().rfind(|line| line.contains("has taken over")).unwrap();
        let now = line.split_once("process ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert_ne!(self.now, now);
        std::mem::replace(&mut self.now, now)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.first.kill());
        drop(self.first.wait());
        if self.now != self.first.id() && !has_exited(self.now) {
            signal(self.now, "KILL");
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

/// True if a process has exited, even if it is still a zombie.
pub(crate) fn has_exited(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

pub(crate) fn wait_exit(process: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("it ends", || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Like [`rules`], with TLS by the certificate of [`write_certificate`](super::certificates::write_certificate).
pub(crate) fn rules_with_tls(upstream: &Upstream, more: &str) -> String {
    rules(upstream, more)
        .replace("listen: LISTEN", "listen: { address: LISTEN, tls: { certificate: cert.pem, key: key.pem } }")
}

pub(crate) fn rules(upstream: &Upstream, more: &str) -> String {
    format!(
        "gateway:\n  listen: LISTEN\n  threads: 2\n  upstreams: {{ shop: \"http://{}\" }}\n  \
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n{more}\n",
        upstream.at
    )
}
