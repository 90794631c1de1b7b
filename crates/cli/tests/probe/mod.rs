//! `sluicegate probe` against servers with a known peak.
//!
//! Other programs may use the CPU meanwhile, so time bounds are wide, requests may be sent later than by default,
//! and a test that fails after a stall ([`stall_monitor`]) is repeated.

mod authorization;
mod docs_page;
mod files;
mod interrupt;
use crate::pages::page;
mod peak;
mod server;
use crate::stall_monitor;
mod tls;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Guards against hanging tests; no measurement uses it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// `sluicegate probe` with these arguments, with tolerance for a busy machine.
fn probe(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.arg("probe").args(words).args(["--max-late", "60ms"]).stdin(Stdio::null()).env_remove("SSL_CERT_FILE");
    command
}

fn run(words: &[&str]) -> Output {
    probe(words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// JSON output.
fn document(output: &Output) -> serde_json::Value {
    serde_json::from_str(&out(output)).unwrap_or_else(|error| panic!("{error}: {}{}", out(output), err(output)))
}

/// Temporary directory, removed on drop.
struct OutputDir(PathBuf);

impl OutputDir {
    fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sluicegate-probe-{}-{index}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        // The system cleans up a directory that cannot be removed here.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
