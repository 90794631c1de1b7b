//! Peer: the usual token bucket script, called by `redis-benchmark`.

use sluicegate_testkit::servers::RedisServer;

use super::ClusterBucket;
use crate::programs::redis_benchmark::BenchmarkLoad;

/// Script with one key and the arguments tokens per second, burst, requested tokens.
pub(crate) const PLAIN: &str = include_str!("plain.lua");

/// Script loaded into a server.
pub(crate) struct PlainScript<'a> {
    server: &'a RedisServer,
    sha: String,
    bucket: ClusterBucket,
}

impl<'a> PlainScript<'a> {
    pub(crate) fn new(server: &'a RedisServer, bucket: ClusterBucket) -> Self {
        let sha = server.command(&["SCRIPT", "LOAD", PLAIN]).expect("redis-cli runs");
        assert!(sha.len() == 40, "cannot load the script: {sha}");
        Self { server, sha, bucket }
    }

    /// Nanoseconds per decision.
    pub(crate) fn nanos_each(&self, load: BenchmarkLoad) -> f64 {
        let key = if load.keys == 1 { "bucket:hot" } else { "bucket:__rand_int__" };
        let [rate, burst] = [self.bucket.per_second, self.bucket.burst].map(|number| number.to_string());
        1e9 / load.per_second(self.server.port(), &["EVALSHA", &self.sha, "1", key, &rate, &burst, "1"])
    }
}
