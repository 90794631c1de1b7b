//! Names this process among those that share the store, and learns how many they are.
//!
//! The same script is the probe by which an open breaker closes: it runs on the primary and writes, as
//! decisions do.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::from_redis_value;
use tokio::time::{sleep, timeout_at};

use super::batch::Batch;
use super::shared::Shared;
use crate::error::{StoreError, StoreErrorKind, Weight};
use crate::invocation::{Invocation, Script};

/// How often a process names itself.
const EVERY: Duration = Duration::from_secs(1);
/// Who is silent for this long is not counted any more, and a store that forgot who was there is believed.
const SILENCE: Duration = Duration::from_secs(5);
/// How long beyond the deadline a heartbeat may take before the store counts as silent.
const STALL: Duration = Duration::from_millis(250);

/// Names a process and counts all. The list expires when its last member has been silent long enough. What
/// adds comes first: a server without memory refuses that only to a script that has written nothing yet.
static BEAT: LazyLock<Script> = LazyLock::new(|| {
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

/// Takes a process off the list.
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new("return redis.call('ZREM', KEYS[1], ARGV[1])"));

/// The scripts of this part, to be loaded with the others.
pub(super) fn scripts() -> [&'static Script; 2] {
    [&BEAT, &LEAVE]
}

/// The key of the list, and a name for this process that no other has.
pub(super) fn names(prefix: &str) -> (Bytes, Bytes) {
    let name = format!("{:016x}{:016x}", super::jitter::random(), super::jitter::random());
    (Bytes::from(format!("{prefix}:{{nodes}}")), Bytes::from(name))
}

impl<B: Batch> Shared<B> {
    /// Names this process every second, unless the recovery does.
    pub(super) async fn beat(&self) {
        loop {
            sleep(EVERY).await;
            if self.is_degraded() || !self.link.is_up() {
                continue;
            }
            let sent = Instant::now();
            match self.probe(sent + self.deadline + STALL).await {
                Ok(()) => self.passed(sent),
                Err(error) if error.kind == StoreErrorKind::Silent => self.failed_with(&error, Weight::Decides),
                Err(error) => self.failed(&error),
            }
            if let Err(error) = self.link.verify().await {
                self.failed(&error);
            }
        }
    }

    /// One heartbeat, answered before `until`.
    pub(super) async fn probe(&self, until: Instant) -> Result<(), StoreError> {
        let silence = Bytes::from(SILENCE.as_micros().to_string());
        let beat = Invocation {
            script: &BEAT,
            keys: vec![self.nodes_key.clone()],
            arguments: vec![self.name.clone(), silence],
        };
        let reply = timeout_at(until.into(), self.link.call(&beat, until))
            .await
            .unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Silent, "no answer to the heartbeat")))?;
        let nodes = from_redis_value::<u32>(reply).map_err(|error| StoreError::unintelligible(error.to_string()))?;
        self.counters.learn_live_nodes(self.census.lock().counted(nodes, Instant::now(), SILENCE));
        Ok(())
    }

    /// Takes this process off the list.
    pub(super) async fn leave(&self, until: Instant) {
        let leave =
            Invocation { script: &LEAVE, keys: vec![self.nodes_key.clone()], arguments: vec![self.name.clone()] };
        // If it fails, the others stop counting this process a little later.
        drop(timeout_at(until.into(), self.link.call(&leave, until)).await);
    }
}
