//! Redis commands sent with `redis-cli`, for test setup independent of the code under test.

use std::io;
use std::process::Command;

/// Runs a command with `redis-cli` and returns its output.
pub(super) fn run(port: u16, args: &[&str]) -> io::Result<String> {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command and returns an error unless the reply is `OK`.
pub(super) fn expect_ok(port: u16, args: &[&str]) -> io::Result<()> {
    match run(port, args)?.as_str() {
        "OK" => Ok(()),
        other => Err(io::Error::other(format!("{}: {other}", args.join(" ")))),
    }
}
