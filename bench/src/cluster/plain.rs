//! The peer: the usual token-bucket script, asked by `redis-benchmark`.

use std::process::Command;

use sluicegate_testkit::servers::RedisServer;

use super::Bucket;

/// The script on a server, ready to be asked.
pub(crate) struct Plain<'a> {
    server: &'a RedisServer,
    sha: String,
    bucket: Bucket,
}

/// Who asks it, and for what.
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

impl<'a> Plain<'a> {
    pub(crate) fn new(server: &'a RedisServer, bucket: Bucket) -> Self {
        let sha = server.command(&["SCRIPT", "LOAD", include_str!("plain.lua")]).expect("redis-cli runs");
        assert!(sha.len() == 40, "the script does not load: {sha}");
        Self { server, sha, bucket }
    }

    /// Nanoseconds per decision.
    pub(crate) fn nanos_each(&self, asking: Asking) -> f64 {
        let Asking { clients, pipelined, keys, calls } = asking;
        let key = if keys == 1 { "bucket:hot" } else { "bucket:__rand_int__" };
        let numbers = [self.server.port().into(), clients, pipelined, keys, calls].map(|number| number.to_string());
        let [port, clients, pipelined, keys, calls] = &numbers;
        let output = Command::new("redis-benchmark")
            .args(["-p", port, "-c", clients, "-P", pipelined, "-r", keys, "-n", calls, "--csv"])
            .args(["EVALSHA", &self.sha, "1", key])
            .args([self.bucket.per_second, self.bucket.burst, 1].map(|number| number.to_string()))
            .output()
            .expect("redis-benchmark runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let per_second = said.lines().last().and_then(|row| row.split("\",\"").nth(1)?.parse::<f64>().ok());
        let per_second = per_second.filter(|_| output.status.success());
        1e9 / per_second.unwrap_or_else(|| panic!("redis-benchmark: {said}{}", String::from_utf8_lossy(&output.stderr)))
    }
}
