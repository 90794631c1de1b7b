//! Runs wrk with 64 connections at maximum load.

use std::ffi::OsStr;
use std::process::Command;

use super::program::Program;
use super::temp_dir::TempDir;

/// Report of wrk.
pub(crate) struct WrkReport {
    pub(crate) per_second: f64,
    pub(crate) requests: u64,
    /// Number of responses with a status other than 2xx or 3xx.
    pub(crate) non_2xx_3xx: u64,
}

/// Sends GET requests for the given time.
pub(crate) fn get(program: &Program, path: &str, seconds: u32) -> WrkReport {
    run(program, path, seconds, &[])
}

/// Sends POST requests with a JSON body for the given time.
pub(crate) fn post(program: &Program, path: &str, body: &str, seconds: u32) -> WrkReport {
    let script =
        format!("wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = [[{body}]]\n");
    let dir = TempDir::with_file("post.lua", script);
    run(program, path, seconds, &["-s".as_ref(), dir.path().join("post.lua").as_os_str()])
}

fn run(program: &Program, path: &str, seconds: u32, options: &[&OsStr]) -> WrkReport {
    let output = Command::new("wrk")
        .args(["-t2", "-c64", &format!("-d{seconds}s")])
        .args(options)
        .arg(format!("http://127.0.0.1:{}{path}", program.port()))
        .output()
        .expect("wrk runs; `scripts/setup bench` installs it");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !stdout.contains("Socket errors"), "wrk, {}: {stdout}", program.name());
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let per_second = stdout.lines().find_map(|line| number(line.strip_prefix("Requests/sec:")?));
    let requests = stdout.lines().find_map(|line| number(line.split_once(" requests in ")?.0));
    let non_2xx_3xx = stdout.lines().find_map(|line| number(line.trim().strip_prefix("Non-2xx or 3xx responses:")?));
    let (Some(per_second), Some(requests)) = (per_second, requests) else { panic!("wrk: {stdout}") };
    WrkReport { per_second, requests: requests as u64, non_2xx_3xx: non_2xx_3xx.unwrap_or(0.0) as u64 }
}
