//! A server of a test's own, and calls of our scripts on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Connection, Value};
use sluicegate_engine::Limit;
use sluicegate_testkit::servers::RedisServer;

use crate::ask::{Answer, Ask, PermitId, Said, Unit};
use crate::exact::{Ending, Renewal, decode_end, decode_renew, decode_take, encode_end, encode_renew, encode_take};
use crate::invocation::Invocation;
use crate::keys::StoreKey;
use crate::prepared::PreparedLimits;

/// A moment in 2040 on the engine's scale: expiries at it do not pass while a test runs.
pub(crate) const FAR: u64 = 450_000_000_000_000;

/// What the engine's epoch is in milliseconds of Unix time.
pub(crate) const EPOCH_MILLIS: u64 = 1_767_225_600_000;

pub(crate) const LIFE: Duration = Duration::from_secs(30);

pub(crate) struct Store {
    pub(crate) connection: Connection,
    _server: RedisServer,
}

impl Store {
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

    pub(crate) fn take(&mut self, asks: &[Ask], now: u64) -> (Vec<Answer>, u64) {
        let value = self.call(&encode_take(asks, Some(now)));
        decode_take(value, asks).unwrap()
    }

    /// Asks for one unit.
    pub(crate) fn ask(&mut self, unit: &Unit, now: u64) -> Said {
        self.take(&[Ask { units: [unit.clone()].into_iter().collect() }], now).0[0][0]
    }

    pub(crate) fn end(&mut self, endings: &[Ending], now: u64) -> (Vec<bool>, u64) {
        let value = self.call(&encode_end(endings, Some(now)));
        decode_end(value, endings).unwrap()
    }

    pub(crate) fn renew(&mut self, renewals: &[Renewal], now: u64) -> Vec<bool> {
        let value = self.call(&encode_renew(renewals, Some(now)));
        decode_renew(value, renewals).unwrap()
    }

    pub(crate) fn run(&mut self, command: &[&[u8]]) -> Value {
        let mut line = redis::Cmd::new();
        for part in command {
            line.arg(*part);
        }
        line.query(&mut self.connection).unwrap()
    }

    /// When a key goes, in microseconds on the engine's scale; `None` if it is not there.
    pub(crate) fn expiry(&mut self, key: &[u8]) -> Option<u64> {
        let millis: i64 = redis::cmd("PEXPIRETIME").arg(key).query(&mut self.connection).unwrap();
        assert_ne!(millis, -1, "a key without an expiry");
        u64::try_from(millis).ok().map(|millis| (millis - EPOCH_MILLIS) * 1_000)
    }

    /// Everything in the store, as it is written to disk.
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

/// A server that is a Redis Cluster all by itself, and has no slots yet.
pub(crate) fn cluster_of_one() -> RedisServer {
    // By default the nodes' own port lies ten thousand above, where there may be none.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &port]).unwrap()
}

pub(crate) fn prepared(limits: &[Limit]) -> Arc<PreparedLimits> {
    Arc::new(PreparedLimits::new(limits, LIFE).unwrap())
}

/// A unit under a key that no other has.
pub(crate) fn unit(limits: &Arc<PreparedLimits>) -> Unit {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut bytes = b"t".to_vec();
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend(key.as_bytes());
    let key = StoreKey::new("sluicegate", "rule", &bytes, limits.shape());
    Unit { key, limits: Arc::clone(limits), cost: 1, permit: limits.has_permits().then_some(PermitId(1)) }
}
