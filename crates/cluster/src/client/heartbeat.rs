//! Heartbeat: registers this process among those that share the store, and counts them.
//!
//! The same script is the probe that closes an open breaker: it runs on the primary and writes, as
//! decisions do.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::from_redis_value;
use tokio::time::{sleep, timeout_at};

use super::batch::Batch;
use super::state::StoreClientState;
use crate::error::{BreakerEffect, StoreError, StoreErrorKind};
use crate::invocation::{Invocation, Script};

/// Heartbeat interval of a process.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A process silent for this long is no longer counted; a lower count after a store loss is then accepted.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time past the deadline after which a heartbeat marks the store as silent.
const STALL_TIMEOUT: Duration = Duration::from_millis(250);

/// Registers a process and counts all. The set expires once its last member has timed out. The write that
/// adds comes first: a server out of memory refuses it only in a script that has not written yet.
static HEARTBEAT_SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local kind = redis.call('TYPE', KEYS[1])['ok']\n\
         if kind ~= 'zset' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end\n\
         local time = redis.call('TIME')\n\
         local now = time[1] * 1000000 + time[2]\n\
         local silence = tonumber(ARGV[2])\n\
         redis.call('ZADD', KEYS[1], now, ARGV[1])\n\
         redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - silence)\n\
         redis.call('ZREMRANGEBYSCORE', KEYS[1], now + silence, '+inf')\n\
         redis.call('PEXPIRE', KEYS[1], math.floor(silence / 1000))\n\
         return redis.call('ZCARD', KEYS[1])",
    )
});

/// Deregisters a process.
static LEAVE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new("return redis.call('ZREM', KEYS[1], ARGV[1])"));

/// The heartbeat scripts, to be loaded with the others.
pub(super) fn scripts() -> [&'static Script; 2] {
    [&HEARTBEAT_SCRIPT, &LEAVE_SCRIPT]
}

/// The key of the node set, and a unique ID for this process.
pub(super) fn node_key_and_id(prefix: &str) -> (Bytes, Bytes) {
    let name = format!("{:016x}{:016x}", super::jitter::random(), super::jitter::random());
    (Bytes::from(format!("{prefix}:{{nodes}}")), Bytes::from(name))
}

impl<B: Batch> StoreClientState<B> {
    /// Sends a heartbeat every second, except during recovery.
    pub(super) async fn heartbeat_loop(&self) {
        loop {
            sleep(HEARTBEAT_INTERVAL).await;
            if self.is_degraded() || !self.connection.is_up() {
                continue;
            }
            let sent = Instant::now();
            match self.probe(sent + self.deadline + STALL_TIMEOUT).await {
                Ok(()) => self.record_success(sent),
                Err(error) if error.kind == StoreErrorKind::Timeout => {
                    self.record_failure_as(&error, BreakerEffect::Trip);
                }
                Err(error) => self.record_failure(&error),
            }
            if let Err(error) = self.connection.verify().await {
                self.record_failure(&error);
            }
        }
    }

    /// Sends one heartbeat, which must complete before `until`.
    pub(super) async fn probe(&self, until: Instant) -> Result<(), StoreError> {
        let node_timeout = Bytes::from(NODE_TIMEOUT.as_micros().to_string());
        let heartbeat = Invocation {
            script: &HEARTBEAT_SCRIPT,
            keys: vec![self.nodes_key.clone()],
            arguments: vec![self.node_id.clone(), node_timeout],
        };
        let reply = timeout_at(until.into(), self.connection.call(&heartbeat, until))
            .await
            .unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Timeout, "no reply to the heartbeat")))?;
        let nodes = from_redis_value::<u32>(reply).map_err(|error| StoreError::invalid_reply(error.to_string()))?;
        self.counters.set_live_nodes(self.node_count.lock().update(nodes, Instant::now(), NODE_TIMEOUT));
        Ok(())
    }

    /// Deregisters this process.
    pub(super) async fn deregister(&self, until: Instant) {
        let leave = Invocation {
            script: &LEAVE_SCRIPT,
            keys: vec![self.nodes_key.clone()],
            arguments: vec![self.node_id.clone()],
        };
        // If it fails, the others stop counting this process after the node timeout.
        drop(timeout_at(until.into(), self.connection.call(&leave, until)).await);
    }
}
