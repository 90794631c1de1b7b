//! A log file in a folder of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::support::wait_until;

/// A log file that is removed on drop.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-access-{}-{index}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Settings that log here with one thread, so that lines are in the order in which requests end.
    pub(crate) fn setting(&self, format: &str) -> String {
        format!("threads: 1\naccess_log: {{ file: \"{}\", format: {format} }}", self.0.join("access.log").display())
    }

    /// Everything written so far.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.0.join("access.log")).unwrap()
    }

    /// Waits for this many lines and returns them; there must not be more.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let mut text = String::new();
        wait_until("the lines are written", || {
            text = self.text();
            text.matches('\n').count() >= count
        });
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{text}");
        lines
    }

    /// The same, parsed as JSON.
    pub(crate) fn objects(&self, count: usize) -> Vec<Value> {
        self.lines(count).iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
