//! `sluicegate probe`, as a user meets it: against servers whose peak is known by how they are made.
//!
//! Other programs may take the processor meanwhile, so bounds are wide where time is measured, requests may leave
//! later than the program would have it, and what a [`witness`] says was not measured is measured again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "functions that tests share are tests too")]

mod files;
mod found;
#[path = "../pages/page.rs"]
mod page;
mod refused;
mod server;
mod shown;
mod stopped;
mod tls;
#[path = "../witness/mod.rs"]
mod witness;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Guards against hanging; nothing is ever measured by it.
const GUARD: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < GUARD, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// `sluicegate probe` with these words, for a machine that has more to do.
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

/// What it tells programs.
fn document(output: &Output) -> serde_json::Value {
    serde_json::from_str(&out(output)).unwrap_or_else(|error| panic!("{error}: {}{}", out(output), err(output)))
}

/// A folder that is gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sluicegate-probe-{}-{nth}", std::process::id()));
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

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
