//! The peer: the usual token-bucket script, asked by `redis-benchmark`.

use sluicegate_testkit::servers::RedisServer;

use super::Bucket;
use crate::programs::redis_benchmark::Asking;

/// Keys: one. Arguments: tokens per second, tokens in a full bucket, tokens wanted.
pub(crate) const PLAIN: &str = include_str!("plain.lua");

/// The script on a server, ready to be asked.
pub(crate) struct Plain<'a> {
    server: &'a RedisServer,
    sha: String,
    bucket: Bucket,
}

impl<'a> Plain<'a> {
    pub(crate) fn new(server: &'a RedisServer, bucket: Bucket) -> Self {
        let sha = server.command(&["SCRIPT", "LOAD", PLAIN]).expect("redis-cli runs");
        assert!(sha.len() == 40, "the script does not load: {sha}");
        Self { server, sha, bucket }
    }

    /// Nanoseconds per decision.
    pub(crate) fn nanos_each(&self, asking: Asking) -> f64 {
        let key = if asking.keys == 1 { "bucket:hot" } else { "bucket:__rand_int__" };
        let [rate, burst] = [self.bucket.per_second, self.bucket.burst].map(|number| number.to_string());
        1e9 / asking.per_second(self.server.port(), &["EVALSHA", &self.sha, "1", key, &rate, &burst, "1"])
    }
}
