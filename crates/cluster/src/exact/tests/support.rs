//! Test store: a server per test, and script calls on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Connection, Value};
use sluicegate_engine::Limit;
use sluicegate_testkit::servers::RedisServer;

use crate::decision::{DecisionRequest, KeyCheck, KeyDecision, KeyDecisions, PermitId};
use crate::encoded_limits::EncodedLimits;
use crate::exact::{
    Release, Renewal, decode_acquire, decode_release, decode_renew, encode_acquire, encode_release, encode_renew,
};
use crate::invocation::Invocation;
use crate::keys::StoreKey;

/// A time in 2040 on the engine's scale: its expiries do not pass while a test runs.
pub(crate) const TEST_NOW: u64 = 450_000_000_000_000;

/// The engine's epoch in Unix milliseconds.
pub(crate) const EPOCH_MILLIS: u64 = 1_767_225_600_000;

pub(crate) const PERMIT_TTL: Duration = Duration::from_secs(30);

pub(crate) struct TestStore {
    pub(crate) connection: Connection,
    _server: RedisServer,
}

impl TestStore {
    pub(crate) fn start() -> Self {
        Self::on(RedisServer::start().unwrap())
    }

    pub(crate) fn on(server: RedisServer) -> Self {
        let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { connection, _server: server }
    }

    pub(crate) fn call(&mut self, invocation: &Invocation) -> Value {
        let sha = &invocation.script.sha;
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha).arg(invocation.keys.len());
        for part in invocation.keys.iter().chain(&invocation.arguments) {
            command.arg(part.as_ref());
        }
        match command.query::<Value>(&mut self.connection) {
            Ok(value) => value,
            Err(error) if error.code() == Some("NOSCRIPT") => {
                let loaded: String = redis::cmd("SCRIPT")
                    .arg("LOAD")
                    .arg(&invocation.script.source)
                    .query(&mut self.connection)
                    .unwrap();
                assert_eq!(&loaded, sha);
                command.query(&mut self.connection).unwrap()
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn acquire(&mut self, requests: &[DecisionRequest], now: u64) -> (Vec<KeyDecisions>, u64) {
        let value = self.call(&encode_acquire(requests, Some(now)));
        decode_acquire(value, requests).unwrap()
    }

    /// Decides a single check.
    pub(crate) fn check(&mut self, check: &KeyCheck, now: u64) -> KeyDecision {
        self.acquire(&[DecisionRequest { checks: [check.clone()].into_iter().collect() }], now).0[0][0]
    }

    pub(crate) fn release(&mut self, releases: &[Release], now: u64) -> (Vec<bool>, u64) {
        let value = self.call(&encode_release(releases, Some(now)));
        decode_release(value, releases).unwrap()
    }

    pub(crate) fn renew(&mut self, renewals: &[Renewal], now: u64) -> Vec<bool> {
        let value = self.call(&encode_renew(renewals, Some(now)));
        decode_renew(value, renewals).unwrap()
    }

    pub(crate) fn run(&mut self, parts: &[&[u8]]) -> Value {
        let mut command = redis::Cmd::new();
        for part in parts {
            command.arg(*part);
        }
        command.query(&mut self.connection).unwrap()
    }

    /// Expiry of a key in microseconds on the engine's scale; `None` if the key does not exist.
    pub(crate) fn expiry(&mut self, key: &[u8]) -> Option<u64> {
        let millis: i64 = redis::cmd("PEXPIRETIME").arg(key).query(&mut self.connection).unwrap();
        assert_ne!(millis, -1, "a key without an expiry");
        u64::try_from(millis).ok().map(|millis| (millis - EPOCH_MILLIS) * 1_000)
    }

    /// Everything in the store, in serialized form.
    pub(crate) fn dump(&mut self) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
        let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut self.connection).unwrap();
        keys.sort();
        keys.into_iter()
            .map(|key| {
                let value = redis::cmd("DUMP").arg(&key).query(&mut self.connection).unwrap();
                let expiry = redis::cmd("PEXPIRETIME").arg(&key).query(&mut self.connection).unwrap();
                (key, value, expiry)
            })
            .collect()
    }
}

/// A single-node Redis Cluster without slots.
pub(crate) fn cluster_of_one() -> RedisServer {
    // The default cluster bus port is ten thousand higher, which may be out of range.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &port]).unwrap()
}

pub(crate) fn encoded(limits: &[Limit]) -> Arc<EncodedLimits> {
    Arc::new(EncodedLimits::new(limits, PERMIT_TTL).unwrap())
}

/// A check under a unique key.
pub(crate) fn key_check(limits: &Arc<EncodedLimits>) -> KeyCheck {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut bytes = b"t".to_vec();
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend(key.as_bytes());
    let key = StoreKey::new("sluicegate", "rule", &bytes, limits.shape());
    KeyCheck { key, limits: Arc::clone(limits), cost: 1, permit: limits.has_permits().then_some(PermitId(1)) }
}
