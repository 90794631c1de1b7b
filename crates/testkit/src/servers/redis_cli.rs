//! Commands to a Redis server, for what a test does beside the thing under test.

use std::io;
use std::process::Command;

/// Runs a command with `redis-cli`, and says what that wrote.
pub(super) fn run(port: u16, words: &[&str]) -> io::Result<String> {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command that must answer `OK`.
pub(super) fn expect_ok(port: u16, words: &[&str]) -> io::Result<()> {
    match run(port, words)?.as_str() {
        "OK" => Ok(()),
        other => Err(io::Error::other(format!("{}: {other}", words.join(" ")))),
    }
}
