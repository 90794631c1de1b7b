//! A log in a folder of its own, and what is written there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::support::until;

/// A place for a log; it is gone with its owner.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-access-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Lines of a rule file that have requests noted here, in the order in which they end: by one thread.
    pub(crate) fn setting(&self, format: &str) -> String {
        format!("threads: 1\naccess_log: {{ file: \"{}\", format: {format} }}", self.0.join("access.log").display())
    }

    /// All that has been written so far.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.0.join("access.log")).unwrap()
    }

    /// The first so many lines, once they are there. There are no more.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let mut text = String::new();
        until("the lines are written", || {
            text = self.text();
            text.matches('\n').count() >= count
        });
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{text}");
        lines
    }

    /// The same, read as JSON.
    pub(crate) fn objects(&self, count: usize) -> Vec<Value> {
        self.lines(count).iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
