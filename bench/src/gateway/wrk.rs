//! wrk: as many requests as 64 connections carry.

use std::process::Command;

use super::program::Program;

/// What wrk says.
pub(crate) struct Told {
    pub(crate) per_second: f64,
    pub(crate) requests: u64,
    /// Requests whose answer was not 2xx or 3xx.
    pub(crate) others: u64,
}

/// Asks `side` for so many seconds.
pub(crate) fn run(side: &Program, seconds: u32) -> Told {
    let output = Command::new("wrk")
        .args(["-t2", "-c64", &format!("-d{seconds}s"), &format!("http://127.0.0.1:{}/small", side.port())])
        .output()
        .expect("wrk runs; `scripts/setup bench` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("Socket errors"), "wrk and {}: {said}", side.name());
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let per_second = said.lines().find_map(|line| number(line.strip_prefix("Requests/sec:")?));
    let requests = said.lines().find_map(|line| number(line.split_once(" requests in ")?.0));
    let others = said.lines().find_map(|line| number(line.trim().strip_prefix("Non-2xx or 3xx responses:")?));
    let (Some(per_second), Some(requests)) = (per_second, requests) else { panic!("wrk: {said}") };
    Told { per_second, requests: requests as u64, others: others.unwrap_or(0.0) as u64 }
}
