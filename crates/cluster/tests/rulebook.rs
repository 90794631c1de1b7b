//! The fleet's rulebook on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::future::Future;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sluicegate_cluster::{
    ClusterStore, KeptRules, LONGEST_RULES, MOST_VERSIONS, Rulebook, RulebookError, State, StoreErrorKind,
    StoreOptions, Topology,
};
use sluicegate_testkit::servers::{RedisCluster, RedisServer, SentinelGroup};
use support::{eventually, flush, options_at};

const KEY: &str = "sluicegate:{rulebook}:versions";

fn wait<T>(question: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(question)
}

fn connected(options: &StoreOptions) -> (Arc<ClusterStore>, Rulebook) {
    let store = ClusterStore::start(options).unwrap();
    eventually("connected", || store.health().state == State::Connected);
    let rulebook = store.rulebook();
    (store, rulebook)
}

fn at(server: &RedisServer) -> (Arc<ClusterStore>, Rulebook) {
    connected(&options_at(server.address()))
}

fn publish(book: &Rulebook, text: &str) -> u64 {
    wait(book.publish(text, "alice", "because", None)).unwrap()
}

fn current(book: &Rulebook) -> KeptRules {
    wait(book.current()).unwrap().unwrap()
}

#[test]
fn what_one_process_publishes_the_others_read() {
    let server = RedisServer::start().unwrap();
    let ((_one, book), (_other, theirs)) = (at(&server), at(&server));
    assert_eq!(wait(book.current_version()), Ok(None));
    assert_eq!(wait(book.current()), Ok(None));
    assert_eq!(wait(book.versions()), Ok(Vec::new()));
    let before = SystemTime::now() - Duration::from_secs(1);
    assert_eq!(wait(book.publish("rules: []\n", "alice", "a start", Some(0))), Ok(1));
    assert_eq!(wait(theirs.current_version()), Ok(Some(1)));
    let read = current(&theirs);
    assert_eq!((read.text.as_str(), read.version.number, read.version.bytes), ("rules: []\n", 1, 10));
    assert_eq!((read.version.author.as_str(), read.version.comment.as_str()), ("alice", "a start"));
    // The server is on this machine: its clock is ours.
    assert!(read.version.at > before && read.version.at < SystemTime::now() + Duration::from_secs(1));
    assert_eq!(server.command(&["PTTL", KEY]).unwrap(), "-1", "rules stay");

    assert_eq!(wait(theirs.publish("rules: [x]", "bob", "", Some(1))), Ok(2));
    let history = wait(book.versions()).unwrap();
    let told: Vec<_> = history.iter().map(|version| (version.number, version.author.as_str(), version.bytes)).collect();
    assert_eq!(told, [(2, "bob", 10), (1, "alice", 10)]);
    assert_eq!(wait(book.version(1)).unwrap().unwrap(), read);
    assert_eq!(wait(book.version(3)), Ok(None));
    assert_eq!(wait(book.version(0)), Ok(None));
    // Going back is a new version with the old text.
    assert_eq!(wait(book.publish(&read.text, "alice", "back to 1", Some(2))), Ok(3));
    assert_eq!(current(&theirs).text, read.text);
}

#[test]
fn texts_come_back_as_they_were() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    for text in ["", "\n", "\0\u{1b}[31m\r\n", "größe: 1\n# 日本語\n", "{rulebook} %s \\ ' \""] {
        let number = publish(&book, text);
        assert_eq!(wait(book.version(number)).unwrap().unwrap().text, text);
    }
    let number = wait(book.publish("x", "日本 {x}", "größer %d", None)).unwrap();
    let version = wait(book.version(number)).unwrap().unwrap().version;
    assert_eq!((version.author.as_str(), version.comment.as_str()), ("日本 {x}", "größer %d"));
}

#[test]
fn of_many_who_publish_on_one_basis_one_is_heard() {
    let server = RedisServer::start().unwrap();
    let stores: Vec<_> = (0..4).map(|_| at(&server)).collect();
    for round in 0..20 {
        let start = Arc::new(Barrier::new(stores.len()));
        let racers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(nth, (_, book))| {
                let (book, start) = (book.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    wait(book.publish(&format!("of {nth}"), &nth.to_string(), "", Some(round)))
                })
            })
            .collect();
        let heard: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        let winners: Vec<_> = (0..heard.len()).filter(|nth| heard[*nth] == Ok(round + 1)).collect();
        assert_eq!(winners.len(), 1, "{heard:?}");
        let losers = heard.iter().filter(|end| **end == Err(RulebookError::Overtaken { current: round + 1 }));
        assert_eq!(losers.count(), heard.len() - 1, "{heard:?}");
        assert_eq!(current(&stores[0].1).text, format!("of {}", winners[0]));
    }
    assert_eq!(wait(stores[0].1.versions()).unwrap().len(), 20);
}

#[test]
fn the_last_hundred_are_kept_and_numbers_go_on() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    let most = MOST_VERSIONS as u64;
    for nth in 1..=most + 5 {
        assert_eq!(publish(&book, &format!("text {nth}")), nth);
    }
    let numbers: Vec<_> = wait(book.versions()).unwrap().iter().map(|version| version.number).collect();
    assert_eq!(numbers, (6..=most + 5).rev().collect::<Vec<_>>());
    assert_eq!(wait(book.version(5)), Ok(None));
    assert_eq!(wait(book.version(6)).unwrap().unwrap().text, "text 6");
    let fields: usize = server.command(&["HLEN", KEY]).unwrap().parse().unwrap();
    assert_eq!(fields, 2 * MOST_VERSIONS + 2, "nothing is left of the others");
}

#[test]
fn long_texts_push_out_old_ones_but_never_the_current() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    let long = "x".repeat(LONGEST_RULES as usize);
    publish(&book, "short");
    publish(&book, &long);
    // Both fit, the short one before them does not.
    publish(&book, &long);
    let kept = |book: &Rulebook| wait(book.versions()).unwrap().iter().map(|kept| kept.number).collect::<Vec<_>>();
    assert_eq!(kept(&book), [3, 2]);
    publish(&book, "short again");
    assert_eq!(kept(&book), [4, 3]);
    assert_eq!(wait(book.version(3)).unwrap().unwrap().text.len() as u64, LONGEST_RULES);
    let refused = wait(book.publish(&format!("{long}x"), "alice", "", None)).unwrap_err();
    assert_eq!(refused, RulebookError::TooLong { bytes: LONGEST_RULES + 1, most: LONGEST_RULES });
    assert_eq!(wait(book.current_version()), Ok(Some(4)));
}

#[test]
fn what_cannot_be_kept_changes_nothing() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    let long = "x".repeat(100_000);
    for (author, comment) in [("a\nb", ""), ("", "a\u{1b}[2J"), (long.as_str(), ""), ("", long.as_str())] {
        assert!(wait(book.publish("text", author, comment, None)).is_err());
    }
    assert_eq!(wait(book.publish("text", "alice", "", Some(1))), Err(RulebookError::Overtaken { current: 0 }));
    assert_eq!(wait(book.publish("text", "alice", "", Some(u64::MAX))), Err(RulebookError::Overtaken { current: 0 }));
    assert_eq!(wait(book.current_version()), Ok(None));
    publish(&book, "text");
    assert_eq!(wait(book.publish("text", "alice", "", Some(0))), Err(RulebookError::Overtaken { current: 1 }));
    for number in [0, 1_000_000_000_000_000, u64::MAX] {
        let mut kept = current(&book);
        kept.version.number = number;
        assert_eq!(wait(book.put_back(&kept)), Err(RulebookError::Number { number }));
    }
    assert_eq!(wait(book.versions()).unwrap().len(), 1);
}

#[test]
fn a_store_that_lost_the_rules_is_given_them_back() {
    let server = RedisServer::start().unwrap();
    let ((_one, book), (_other, theirs)) = (at(&server), at(&server));
    (1..=7).for_each(|nth| assert_eq!(publish(&book, &format!("text {nth}")), nth));
    let known = current(&theirs);
    flush(&server);
    assert_eq!(wait(theirs.current_version()), Ok(None));
    wait(theirs.put_back(&known)).unwrap();
    assert_eq!(current(&book), known, "with its number, author and time");
    // By all who know it, one after the other.
    wait(book.put_back(&known)).unwrap();
    assert_eq!(wait(book.versions()), Ok(vec![known.version.clone()]));
    assert_eq!(publish(&book, "text 8"), 8);
    // Who comes late with what is old, is not heard.
    wait(theirs.put_back(&known)).unwrap();
    assert_eq!(current(&book).text, "text 8");
    let mut older = known;
    older.version.number = 3;
    wait(theirs.put_back(&older)).unwrap();
    assert_eq!(wait(book.version(3)), Ok(None));
    assert_eq!(wait(book.versions()).unwrap().len(), 2);
}

/// Otherwise two texts would have the same number, and who has the first would take the second for it.
#[test]
fn a_number_that_was_seen_is_not_given_again_by_a_store_that_lost_it() {
    let server = RedisServer::start().unwrap();
    let ((_one, book), (_other, theirs)) = (at(&server), at(&server));
    (1..=7).for_each(|nth| assert_eq!(publish(&book, "text"), nth));
    assert_eq!(wait(theirs.current_version()), Ok(Some(7)));
    flush(&server);
    assert_eq!(publish(&theirs, "another"), 8);
    flush(&server);
    assert_eq!(wait(theirs.publish("a third", "bob", "", Some(0))), Ok(9));
}

#[test]
fn a_foreign_value_is_an_error_and_is_left_alone() {
    let server = RedisServer::start().unwrap();
    let (store, book) = at(&server);
    let kept = {
        publish(&book, "text");
        current(&book)
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
        let read = wait(book.current());
        let Err(RulebookError::Foreign { key, .. }) = &read else { panic!("{other:?}: {read:?}") };
        assert_eq!(key, KEY);
        assert!(matches!(wait(book.versions()), Err(RulebookError::Foreign { .. })), "{other:?}");
        if other != others[5] {
            assert!(matches!(wait(book.publish("x", "", "", None)), Err(RulebookError::Foreign { .. })), "{other:?}");
            assert!(matches!(wait(book.put_back(&kept)), Err(RulebookError::Foreign { .. })), "{other:?}");
        }
        assert_eq!(server.command(&["DUMP", KEY]).unwrap(), before, "{other:?}");
    }
    assert_eq!(store.health().state, State::Connected, "it is not the store's fault");
    assert_eq!(publish(&book, "a version without its text does not hinder the next"), 8);
    assert_eq!(current(&book).version.number, 8);
    server.command(&["HSET", KEY, "number", "999999999999999", "kept", "999999999999999"]).unwrap();
    assert!(matches!(wait(book.publish("x", "", "", None)), Err(RulebookError::Foreign { .. })), "numbers end there");
}

#[test]
fn a_lost_store_is_told_promptly() {
    let mut server = RedisServer::start().unwrap();
    let (store, book) = at(&server);
    publish(&book, "text");
    server.pause().unwrap();
    let begun = Instant::now();
    let silent = wait(book.current_version()).unwrap_err();
    assert!(matches!(silent, RulebookError::Silent | RulebookError::Degraded), "{silent}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    server.resume().unwrap();
    eventually("answered", || wait(book.current_version()) == Ok(Some(1)));

    server.kill();
    eventually("degraded", || wait(book.current()) == Err(RulebookError::Degraded));
    let begun = Instant::now();
    (0..100).for_each(|_| assert_eq!(wait(book.publish("x", "", "", None)), Err(RulebookError::Degraded)));
    assert!(begun.elapsed() < Duration::from_secs(1));
    server.restart().unwrap();
    eventually("back", || wait(book.current_version()) == Ok(None));

    wait(store.close());
    assert_eq!(wait(book.current_version()), Err(RulebookError::Closed));
    drop(store);
    assert_eq!(wait(book.publish("x", "", "", None)), Err(RulebookError::Closed));
}

#[test]
fn a_store_that_takes_nothing_says_so() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    publish(&book, "text");
    let kinds = |error: RulebookError| match error {
        RulebookError::Store { kind, .. } => Some(kind),
        RulebookError::Degraded => None,
        other => panic!("{other}"),
    };
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let full = wait(book.publish("x", "", "", None)).unwrap_err();
    assert!(full.to_string().contains("raise maxmemory") || full == RulebookError::Degraded, "{full}");
    assert!(matches!(kinds(full), Some(StoreErrorKind::OutOfMemory) | None));
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    eventually("has memory", || wait(book.current_version()) == Ok(Some(1)));
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let replica = wait(book.publish("x", "", "", None)).unwrap_err();
    assert!(matches!(kinds(replica), Some(StoreErrorKind::ReadOnly) | None));
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    eventually("is primary", || wait(book.current_version()) == Ok(Some(1)));
}

#[test]
fn a_restarted_process_finds_the_rules() {
    let server = RedisServer::start().unwrap();
    let (store, book) = at(&server);
    publish(&book, "text");
    wait(store.close());
    drop((store, book));
    let (_store, book) = at(&server);
    assert_eq!(current(&book).text, "text");
    let other_fleet = StoreOptions { key_prefix: "other".into(), ..options_at(server.address()) };
    assert_eq!(wait(connected(&other_fleet).1.current_version()), Ok(None));
}

#[test]
fn scripts_may_be_forgotten() {
    let server = RedisServer::start().unwrap();
    let (_store, book) = at(&server);
    publish(&book, "text");
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(current(&book).text, "text");
}

#[test]
fn the_rights_that_are_documented_suffice() {
    let server = RedisServer::start().unwrap();
    let docs = include_str!("../../../docs/cluster.md");
    let rights = docs.split("ACL SETUSER sluicegate ").nth(1).unwrap().split("```").next().unwrap();
    let words: Vec<&str> = ["ACL", "SETUSER", "sluicegate"].into_iter().chain(rights.split_whitespace()).collect();
    assert_eq!(server.command(&words).unwrap(), "OK");
    let mut options = options_at(server.address());
    (options.username, options.password) = (Some("sluicegate".into()), Some("password".into()));
    let (_store, book) = connected(&options);
    for _ in 0..MOST_VERSIONS + 1 {
        publish(&book, "text");
    }
    wait(book.put_back(&current(&book))).unwrap();
    assert_eq!(wait(book.versions()).unwrap().len(), MOST_VERSIONS);
}

#[test]
fn a_redis_cluster_keeps_it_also_while_its_slot_moves() {
    let mut cluster = RedisCluster::start().unwrap();
    let options = StoreOptions { topology: Topology::Cluster, nodes: cluster.addresses(), ..options_at(String::new()) };
    let ((_one, book), (_other, theirs)) = (connected(&options), connected(&options));
    assert_eq!(publish(&book, "text 1"), 1);
    assert_eq!(current(&theirs).text, "text 1");
    let owner = |cluster: &mut RedisCluster| {
        let has = |server: &RedisServer| server.command(&["EXISTS", KEY]).unwrap() == "1";
        (0..3).find(|nth| has(&cluster.servers()[*nth])).unwrap()
    };
    let from = owner(&mut cluster);
    let slot = cluster.servers()[from].command(&["CLUSTER", "KEYSLOT", KEY]).unwrap().parse().unwrap();
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to).unwrap();
    assert_eq!(publish(&book, "text 2"), 2);
    cluster.move_keys(slot, from, to).unwrap();
    assert_eq!(publish(&theirs, "text 3"), 3);
    cluster.end_move(slot, from, to).unwrap();
    assert_eq!(owner(&mut cluster), to);
    assert_eq!(wait(book.versions()).unwrap().len(), 3);
}

#[test]
fn a_new_primary_goes_on_with_it() {
    let mut group = SentinelGroup::start().unwrap();
    let topology = Topology::Sentinel(SentinelGroup::NAME.into());
    let options = StoreOptions { topology, nodes: vec![group.address()], ..options_at(String::new()) };
    let (_store, book) = connected(&options);
    publish(&book, "text");
    eventually("replicated", || group.first_replica().command(&["EXISTS", KEY]).unwrap() == "1");
    group.first_primary().kill();
    eventually("failed over", || wait(book.publish("after", "alice", "", Some(1))) == Ok(2));
    assert_eq!(group.first_replica().command(&["HGET", KEY, "t2"]).unwrap(), "after");
}
