//! Test support: processes of a cluster, and shorthand for rules.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::print_stderr, reason = "the test prints figures")]

pub(crate) mod cluster;
pub(crate) mod load;

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_cluster::{ClusterStore, StoreOptions, StoreState, Topology};
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{Attribute, ClusterMode, OnStoreFailure, Request, Rule, Scope};
use sluicegate_testkit::servers::RedisServer;

/// Longer than anything takes on a busy machine.
pub(crate) const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(20);

/// One process of a cluster.
pub(crate) struct Process {
    pub(crate) store: Arc<ClusterStore>,
    pub(crate) sluice: Sluice,
}

impl Process {
    pub(crate) fn start(server: &RedisServer, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::start_with(server, rules, |_| {})
    }

    /// A process with other options.
    pub(crate) fn start_with(
        server: &RedisServer,
        rules: impl IntoIterator<Item = Rule>,
        change: impl FnOnce(&mut StoreOptions),
    ) -> Self {
        let mut options = options_at(server.address());
        change(&mut options);
        Self::with(&options, rules)
    }

    pub(crate) fn with(options: &StoreOptions, rules: impl IntoIterator<Item = Rule>) -> Self {
        let store = ClusterStore::start(options).unwrap();
        let sluice = Sluice::builder().rules(rules).store(store.clone()).memory(1 << 20).build().unwrap();
        store.share_with(&sluice);
        let process = Self { store, sluice };
        process.wait_until_connected();
        process
    }

    pub(crate) fn wait_until_connected(&self) {
        eventually("connected", || self.store.health().state == StoreState::Connected);
    }

    /// Disconnects from the store.
    pub(crate) fn close(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.store.close());
    }
}

/// One server, with a generous deadline: the machine may be busy.
pub(crate) fn options_at(address: String) -> StoreOptions {
    StoreOptions { deadline: Duration::from_secs(5), ..StoreOptions::new(Topology::Single, [address]) }
}

/// Waits until a condition holds.
pub(crate) fn eventually(label: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + EVENTUALLY_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {label}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn local(name: &str, limit: &str) -> Rule {
    Rule::new(name, [limit.parse().unwrap()])
}

pub(crate) fn with_policy(on_store_failure: OnStoreFailure, rule: Rule) -> Rule {
    Rule { scope: Scope::Cluster { mode: ClusterMode::Exact, on_store_failure }, ..rule }
}

pub(crate) fn leased(on_store_failure: OnStoreFailure, rule: Rule) -> Rule {
    Rule { scope: Scope::Cluster { mode: ClusterMode::Lease, on_store_failure }, ..rule }
}

/// Decided in the store; refused without it, so that no test passes by accident.
pub(crate) fn cluster(name: &str, limit: &str) -> Rule {
    with_policy(OnStoreFailure::Closed, local(name, limit))
}

pub(crate) fn by_ip(rule: Rule) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..rule }
}

pub(crate) fn get() -> Request<'static> {
    Request::new("GET", "/")
}

pub(crate) fn from(ip: &str) -> Request<'static> {
    get().with_client_ip(ip.parse::<IpAddr>().unwrap())
}

fn connection(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Number of keys without an expiry.
pub(crate) fn keys_without_expiry(server: &RedisServer) -> usize {
    let mut store = connection(server);
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut store).unwrap();
    assert!(!keys.is_empty());
    keys.iter().filter(|key| redis::cmd("PTTL").arg(key).query::<i64>(&mut store).unwrap() == -1).count()
}

pub(crate) fn flush(server: &RedisServer) {
    redis::cmd("FLUSHALL").exec(&mut connection(server)).unwrap();
}

/// Number of commands the store has run, not counting those within scripts.
pub(crate) fn commands(server: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection(server)).unwrap();
    let calls = info
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}
