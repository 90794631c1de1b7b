//! wrk: as many requests as 64 connections carry.

use std::ffi::OsStr;
use std::process::Command;

use super::folder::Folder;
use super::program::Program;

/// What wrk says.
pub(crate) struct Told {
    pub(crate) per_second: f64,
    pub(crate) requests: u64,
    /// Requests whose answer was not 2xx or 3xx.
    pub(crate) others: u64,
}

/// Asks `side` for a page, for so many seconds.
pub(crate) fn get(side: &Program, path: &str, seconds: u32) -> Told {
    run(side, path, seconds, &[])
}

/// Sends JSON to `side`, for so many seconds.
pub(crate) fn post(side: &Program, path: &str, body: &str, seconds: u32) -> Told {
    let script =
        format!("wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = [[{body}]]\n");
    let folder = Folder::with("post.lua", script);
    run(side, path, seconds, &["-s".as_ref(), folder.path().join("post.lua").as_os_str()])
}

fn run(side: &Program, path: &str, seconds: u32, options: &[&OsStr]) -> Told {
    let output = Command::new("wrk")
        .args(["-t2", "-c64", &format!("-d{seconds}s")])
        .args(options)
        .arg(format!("http://127.0.0.1:{}{path}", side.port()))
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
