//! The rule repository on real servers.

use crate::support;

use std::future::Future;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sluicegate_cluster::{
    ClusterStore, MAX_RULES_BYTES, MAX_VERSIONS, RuleRepository, RuleRepositoryError, StoreErrorKind, StoreOptions,
    StoreState, StoredRules, Topology,
};
use sluicegate_testkit::servers::{RedisCluster, RedisServer, SentinelGroup};
use support::{eventually, flush, options_at};

const KEY: &str = "sluicegate:{rules}:versions";

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn connected(options: &StoreOptions) -> (Arc<ClusterStore>, RuleRepository) {
    let store = ClusterStore::start(options).unwrap();
    eventually("connected", || store.health().state == StoreState::Connected);
    let repository = store.rule_repository();
    (store, repository)
}

fn at(server: &RedisServer) -> (Arc<ClusterStore>, RuleRepository) {
    connected(&options_at(server.address()))
}

fn publish(repository: &RuleRepository, text: &str) -> u64 {
    wait(repository.publish(text, "alice", "because", None)).unwrap()
}

fn current(repository: &RuleRepository) -> StoredRules {
    wait(repository.current()).unwrap().unwrap()
}

#[test]
fn a_published_version_is_read_by_other_processes() {
    let server = RedisServer::start().unwrap();
    let ((_one, repository), (_other, theirs)) = (at(&server), at(&server));
    assert_eq!(wait(repository.current_version()), Ok(None));
    assert_eq!(wait(repository.current()), Ok(None));
    assert_eq!(wait(repository.versions()), Ok(Vec::new()));
    let before = SystemTime::now() - Duration::from_secs(1);
    assert_eq!(wait(repository.publish("rules: []\n", "alice", "a start", Some(0))), Ok(1));
    assert_eq!(wait(theirs.current_version()), Ok(Some(1)));
    let read = current(&theirs);
    assert_eq!((read.text.as_str(), read.version.number, read.version.bytes), ("rules: []\n", 1, 10));
    assert_eq!((read.version.author.as_str(), read.version.comment.as_str()), ("alice", "a start"));
    // The server runs on this machine and shares its clock.
    assert!(read.version.at > before && read.version.at < SystemTime::now() + Duration::from_secs(1));
    assert_eq!(server.command(&["PTTL", KEY]).unwrap(), "-1", "rules stay");

    assert_eq!(wait(theirs.publish("rules: [x]", "bob", "", Some(1))), Ok(2));
    let history = wait(repository.versions()).unwrap();
    let versions: Vec<_> =
        history.iter().map(|version| (version.number, version.author.as_str(), version.bytes)).collect();
    assert_eq!(versions, [(2, "bob", 10), (1, "alice", 10)]);
    assert_eq!(wait(repository.version(1)).unwrap().unwrap(), read);
    assert_eq!(wait(repository.version(3)), Ok(None));
    assert_eq!(wait(repository.version(0)), Ok(None));
    // A rollback is a new version with the old text.
    assert_eq!(wait(repository.publish(&read.text, "alice", "back to 1", Some(2))), Ok(3));
    assert_eq!(current(&theirs).text, read.text);
}

#[test]
fn texts_round_trip() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    for text in ["", "\n", "\0\u{1b}[31m\r\n", "größe: 1\n# 日本語\n", "{rules} %s \\ ' \""] {
        let number = publish(&repository, text);
        assert_eq!(wait(repository.version(number)).unwrap().unwrap().text, text);
    }
    let number = wait(repository.publish("x", "日本 {x}", "größer %d", None)).unwrap();
    let version = wait(repository.version(number)).unwrap().unwrap().version;
    assert_eq!((version.author.as_str(), version.comment.as_str()), ("日本 {x}", "größer %d"));
}

#[test]
fn of_concurrent_publishers_one_succeeds() {
    let server = RedisServer::start().unwrap();
    let stores: Vec<_> = (0..4).map(|_| at(&server)).collect();
    for round in 0..20 {
        let start = Arc::new(Barrier::new(stores.len()));
        let racers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(index, (_, repository))| {
                let (repository, start) = (repository.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    wait(repository.publish(&format!("of {index}"), &index.to_string(), "", Some(round)))
                })
            })
            .collect();
        let received: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        let winners: Vec<_> = (0..received.len()).filter(|index| received[*index] == Ok(round + 1)).collect();
        assert_eq!(winners.len(), 1, "{received:?}");
        let losers = received.iter().filter(|end| **end == Err(RuleRepositoryError::Conflict { current: round + 1 }));
        assert_eq!(losers.count(), received.len() - 1, "{received:?}");
        assert_eq!(current(&stores[0].1).text, format!("of {}", winners[0]));
    }
    assert_eq!(wait(stores[0].1.versions()).unwrap().len(), 20);
}

#[test]
fn the_last_hundred_versions_are_retained_and_numbers_keep_rising() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    let max = MAX_VERSIONS as u64;
    for index in 1..=max + 5 {
        assert_eq!(publish(&repository, &format!("text {index}")), index);
    }
    let numbers: Vec<_> = wait(repository.versions()).unwrap().iter().map(|version| version.number).collect();
    assert_eq!(numbers, (6..=max + 5).rev().collect::<Vec<_>>());
    assert_eq!(wait(repository.version(5)), Ok(None));
    assert_eq!(wait(repository.version(6)).unwrap().unwrap().text, "text 6");
    let fields: usize = server.command(&["HLEN", KEY]).unwrap().parse().unwrap();
    assert_eq!(fields, 2 * MAX_VERSIONS + 2, "other versions are deleted");
}

#[test]
fn long_texts_evict_old_versions_but_never_the_current_one() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    let long = "x".repeat(MAX_RULES_BYTES as usize);
    publish(&repository, "short");
    publish(&repository, &long);
    // Both long texts fit; the short one before them does not.
    publish(&repository, &long);
    let stored_versions = |repository: &RuleRepository| {
        wait(repository.versions()).unwrap().iter().map(|version| version.number).collect::<Vec<_>>()
    };
    assert_eq!(stored_versions(&repository), [3, 2]);
    publish(&repository, "short again");
    assert_eq!(stored_versions(&repository), [4, 3]);
    assert_eq!(wait(repository.version(3)).unwrap().unwrap().text.len() as u64, MAX_RULES_BYTES);
    let refused = wait(repository.publish(&format!("{long}x"), "alice", "", None)).unwrap_err();
    assert_eq!(refused, RuleRepositoryError::TooLong { bytes: MAX_RULES_BYTES + 1, max: MAX_RULES_BYTES });
    assert_eq!(wait(repository.current_version()), Ok(Some(4)));
}

#[test]
fn invalid_versions_change_nothing() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    let long = "x".repeat(100_000);
    for (author, comment) in [("a\nb", ""), ("", "a\u{1b}[2J"), (long.as_str(), ""), ("", long.as_str())] {
        assert!(wait(repository.publish("text", author, comment, None)).is_err());
    }
    assert_eq!(
        wait(repository.publish("text", "alice", "", Some(1))),
        Err(RuleRepositoryError::Conflict { current: 0 })
    );
    assert_eq!(
        wait(repository.publish("text", "alice", "", Some(u64::MAX))),
        Err(RuleRepositoryError::Conflict { current: 0 })
    );
    assert_eq!(wait(repository.current_version()), Ok(None));
    publish(&repository, "text");
    assert_eq!(
        wait(repository.publish("text", "alice", "", Some(0))),
        Err(RuleRepositoryError::Conflict { current: 1 })
    );
    for number in [0, 1_000_000_000_000_000, u64::MAX] {
        let mut stored = current(&repository);
        stored.version.number = number;
        assert_eq!(wait(repository.restore(&stored)), Err(RuleRepositoryError::InvalidVersion { number }));
    }
    assert_eq!(wait(repository.versions()).unwrap().len(), 1);
}

#[test]
fn lost_rules_are_restored() {
    let server = RedisServer::start().unwrap();
    let ((_one, repository), (_other, theirs)) = (at(&server), at(&server));
    (1..=7).for_each(|index| assert_eq!(publish(&repository, &format!("text {index}")), index));
    let known = current(&theirs);
    flush(&server);
    assert_eq!(wait(theirs.current_version()), Ok(None));
    wait(theirs.restore(&known)).unwrap();
    assert_eq!(current(&repository), known, "with its number, author and time");
    // Restored by every process that knows it, in sequence.
    wait(repository.restore(&known)).unwrap();
    assert_eq!(wait(repository.versions()), Ok(vec![known.version.clone()]));
    assert_eq!(publish(&repository, "text 8"), 8);
    // A late restore of an old version is ignored.
    wait(theirs.restore(&known)).unwrap();
    assert_eq!(current(&repository).text, "text 8");
    let mut older = known;
    older.version.number = 3;
    wait(theirs.restore(&older)).unwrap();
    assert_eq!(wait(repository.version(3)), Ok(None));
    assert_eq!(wait(repository.versions()).unwrap().len(), 2);
}

/// Otherwise two texts would share a number, and a process with the first would mistake the second for it.
#[test]
fn a_seen_version_number_is_not_reused_after_a_loss() {
    let server = RedisServer::start().unwrap();
    let ((_one, repository), (_other, theirs)) = (at(&server), at(&server));
    (1..=7).for_each(|index| assert_eq!(publish(&repository, "text"), index));
    assert_eq!(wait(theirs.current_version()), Ok(Some(7)));
    flush(&server);
    assert_eq!(publish(&theirs, "another"), 8);
    flush(&server);
    assert_eq!(wait(theirs.publish("a third", "bob", "", Some(0))), Ok(9));
}

#[test]
fn a_foreign_value_is_an_error_and_is_not_modified() {
    let server = RedisServer::start().unwrap();
    let (store, repository) = at(&server);
    let kept = {
        publish(&repository, "text");
        current(&repository)
    };
    let others: [&[&str]; 6] = [
        &["SET", KEY, "mine"],
        &["RPUSH", KEY, "mine"],
        &["HSET", KEY, "mine", "1"],
        &["HSET", KEY, "number", "seven", "kept", "7"],
        &["HSET", KEY, "number", "7", "kept", "6"],
        &["HSET", KEY, "number", "7", "kept", "7"],
    ];
    for other in others {
        server.command(&["DEL", KEY]).unwrap();
        server.command(other).unwrap();
        let before = server.command(&["DUMP", KEY]).unwrap();
        let read = wait(repository.current());
        let Err(RuleRepositoryError::Foreign { key, .. }) = &read else { panic!("{other:?}: {read:?}") };
        assert_eq!(key, KEY);
        assert!(matches!(wait(repository.versions()), Err(RuleRepositoryError::Foreign { .. })), "{other:?}");
        if other != others[5] {
            assert!(
                matches!(wait(repository.publish("x", "", "", None)), Err(RuleRepositoryError::Foreign { .. })),
                "{other:?}"
            );
            assert!(matches!(wait(repository.restore(&kept)), Err(RuleRepositoryError::Foreign { .. })), "{other:?}");
        }
        assert_eq!(server.command(&["DUMP", KEY]).unwrap(), before, "{other:?}");
    }
    assert_eq!(store.health().state, StoreState::Connected, "not counted as a store failure");
    assert_eq!(publish(&repository, "a version without its text does not block the next"), 8);
    assert_eq!(current(&repository).version.number, 8);
    server.command(&["HSET", KEY, "number", "999999999999999", "kept", "999999999999999"]).unwrap();
    assert!(
        matches!(wait(repository.publish("x", "", "", None)), Err(RuleRepositoryError::Foreign { .. })),
        "the version numbers are exhausted"
    );
}

#[test]
fn an_unavailable_store_is_reported_promptly() {
    let mut server = RedisServer::start().unwrap();
    let (store, repository) = at(&server);
    publish(&repository, "text");
    server.pause().unwrap();
    let start = Instant::now();
    let silent = wait(repository.current_version()).unwrap_err();
    assert!(matches!(silent, RuleRepositoryError::Timeout | RuleRepositoryError::Degraded), "{silent}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    server.resume().unwrap();
    eventually("answered", || wait(repository.current_version()) == Ok(Some(1)));

    server.kill();
    eventually("degraded", || wait(repository.current()) == Err(RuleRepositoryError::Degraded));
    let start = Instant::now();
    (0..100).for_each(|_| assert_eq!(wait(repository.publish("x", "", "", None)), Err(RuleRepositoryError::Degraded)));
    assert!(start.elapsed() < Duration::from_secs(1));
    server.restart().unwrap();
    eventually("back", || wait(repository.current_version()) == Ok(None));

    wait(store.close());
    assert_eq!(wait(repository.current_version()), Err(RuleRepositoryError::Closed));
    drop(store);
    assert_eq!(wait(repository.publish("x", "", "", None)), Err(RuleRepositoryError::Closed));
}

#[test]
fn a_read_only_or_full_store_is_reported() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    publish(&repository, "text");
    let kinds = |error: RuleRepositoryError| match error {
        RuleRepositoryError::Store { kind, .. } => Some(kind),
        RuleRepositoryError::Degraded => None,
        other => panic!("{other}"),
    };
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let full = wait(repository.publish("x", "", "", None)).unwrap_err();
    assert!(full.to_string().contains("raise maxmemory") || full == RuleRepositoryError::Degraded, "{full}");
    assert!(matches!(kinds(full), Some(StoreErrorKind::OutOfMemory) | None));
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    eventually("has memory", || wait(repository.current_version()) == Ok(Some(1)));
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let replica = wait(repository.publish("x", "", "", None)).unwrap_err();
    assert!(matches!(kinds(replica), Some(StoreErrorKind::ReadOnly) | None));
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    eventually("is primary", || wait(repository.current_version()) == Ok(Some(1)));
}

#[test]
fn a_restarted_process_finds_the_rules() {
    let server = RedisServer::start().unwrap();
    let (store, repository) = at(&server);
    publish(&repository, "text");
    wait(store.close());
    drop((store, repository));
    let (_store, repository) = at(&server);
    assert_eq!(current(&repository).text, "text");
    let other_cluster = StoreOptions { key_prefix: "other".into(), ..options_at(server.address()) };
    assert_eq!(wait(connected(&other_cluster).1.current_version()), Ok(None));
}

#[test]
fn scripts_are_reloaded_after_a_flush() {
    let server = RedisServer::start().unwrap();
    let (_store, repository) = at(&server);
    publish(&repository, "text");
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(current(&repository).text, "text");
}

#[test]
fn the_documented_acl_suffices() {
    let server = RedisServer::start().unwrap();
    let docs = include_str!("../../../docs/cluster.md");
    let rights = docs.split("ACL SETUSER sluicegate ").nth(1).unwrap().split("```").next().unwrap();
    let words: Vec<&str> = ["ACL", "SETUSER", "sluicegate"].into_iter().chain(rights.split_whitespace()).collect();
    assert_eq!(server.command(&words).unwrap(), "OK");
    let mut options = options_at(server.address());
    (options.username, options.password) = (Some("sluicegate".into()), Some("password".into()));
    let (_store, repository) = connected(&options);
    for _ in 0..MAX_VERSIONS + 1 {
        publish(&repository, "text");
    }
    wait(repository.restore(&current(&repository))).unwrap();
    assert_eq!(wait(repository.versions()).unwrap().len(), MAX_VERSIONS);
}

#[test]
fn rules_survive_a_slot_migration() {
    let mut cluster = RedisCluster::start().unwrap();
    let options = StoreOptions { topology: Topology::Cluster, nodes: cluster.addresses(), ..options_at(String::new()) };
    let ((_one, repository), (_other, theirs)) = (connected(&options), connected(&options));
    assert_eq!(publish(&repository, "text 1"), 1);
    assert_eq!(current(&theirs).text, "text 1");
    let owner = |cluster: &mut RedisCluster| {
        let has = |server: &RedisServer| server.command(&["EXISTS", KEY]).unwrap() == "1";
        (0..3).find(|index| has(&cluster.servers()[*index])).unwrap()
    };
    let from = owner(&mut cluster);
    let slot = cluster.servers()[from].command(&["CLUSTER", "KEYSLOT", KEY]).unwrap().parse().unwrap();
    let to = (from + 1) % 3;
    cluster.begin_slot_migration(slot, from, to).unwrap();
    assert_eq!(publish(&repository, "text 2"), 2);
    cluster.migrate_keys(slot, from, to).unwrap();
    assert_eq!(publish(&theirs, "text 3"), 3);
    cluster.finish_slot_migration(slot, from, to).unwrap();
    assert_eq!(owner(&mut cluster), to);
    assert_eq!(wait(repository.versions()).unwrap().len(), 3);
}

#[test]
fn rules_survive_a_failover() {
    let mut group = SentinelGroup::start().unwrap();
    let topology = Topology::Sentinel(SentinelGroup::NAME.into());
    let options = StoreOptions { topology, nodes: vec![group.address()], ..options_at(String::new()) };
    let (_store, repository) = connected(&options);
    publish(&repository, "text");
    eventually("replicated", || group.first_replica().command(&["EXISTS", KEY]).unwrap() == "1");
    group.first_primary().kill();
    eventually("failed over", || wait(repository.publish("after", "alice", "", Some(1))) == Ok(2));
    assert_eq!(group.first_replica().command(&["HGET", KEY, "t2"]).unwrap(), "after");
}
