//! Runs redis-benchmark with one repeated command.

use std::process::Command;

/// Load of a redis-benchmark run.
#[derive(Clone, Copy)]
pub(crate) struct BenchmarkLoad {
    /// Connections.
    pub(crate) clients: u32,
    /// Calls in flight per connection.
    pub(crate) pipelined: u32,
    /// Number of random keys.
    pub(crate) keys: u32,
    /// Total number of calls.
    pub(crate) calls: u32,
}

impl BenchmarkLoad {
    /// Runs `command` and returns calls per second. `__rand_int__` in it is replaced by a key number. Panics if a call
    /// fails.
    pub(crate) fn per_second(self, port: u16, command: &[&str]) -> f64 {
        let numbers = [port.into(), self.clients, self.pipelined, self.keys, self.calls].map(|it: u32| it.to_string());
        let [port, clients, pipelined, keys, calls] = &numbers;
        let output = Command::new("redis-benchmark")
            // Before 7.0, errors are detected only with -e; later versions abort on an error.
            .args(["-p", port, "-c", clients, "-P", pipelined, "-r", keys, "-n", calls, "-e", "--csv"])
            .args(command)
            .output()
            .expect("redis-benchmark runs; `scripts/setup bench` installs it");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let per_second = stdout.lines().last().and_then(|row| row.split("\",\"").nth(1)?.parse::<f64>().ok());
        let per_second = per_second.filter(|_| output.status.success() && !stdout.contains("Error from server"));
        per_second.unwrap_or_else(|| panic!("redis-benchmark: {stdout}{}", String::from_utf8_lossy(&output.stderr)))
    }
}
