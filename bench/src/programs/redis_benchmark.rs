//! redis-benchmark: one command, over and over.

use std::process::Command;

/// Who asks, and how often.
#[derive(Clone, Copy)]
pub(crate) struct Asking {
    /// Connections.
    pub(crate) clients: u32,
    /// Calls under way on each.
    pub(crate) pipelined: u32,
    /// Keys, drawn at random.
    pub(crate) keys: u32,
    /// Calls in all.
    pub(crate) calls: u32,
}

impl Asking {
    /// Calls per second of `command` at a server, in which `__rand_int__` stands for a key's number. None may fail.
    pub(crate) fn per_second(self, port: u16, command: &[&str]) -> f64 {
        let numbers = [port.into(), self.clients, self.pipelined, self.keys, self.calls].map(|it: u32| it.to_string());
        let [port, clients, pipelined, keys, calls] = &numbers;
        let output = Command::new("redis-benchmark")
            // Before 7.0, errors counted as if they were answers unless they are shown (-e); now they end it.
            .args(["-p", port, "-c", clients, "-P", pipelined, "-r", keys, "-n", calls, "-e", "--csv"])
            .args(command)
            .output()
            .expect("redis-benchmark runs; `scripts/setup bench` installs it");
        let said = String::from_utf8_lossy(&output.stdout);
        let per_second = said.lines().last().and_then(|row| row.split("\",\"").nth(1)?.parse::<f64>().ok());
        let per_second = per_second.filter(|_| output.status.success() && !said.contains("Error from server"));
        per_second.unwrap_or_else(|| panic!("redis-benchmark: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}
