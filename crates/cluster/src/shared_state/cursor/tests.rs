#![allow(clippy::unwrap_used, reason = "a test")]

use redis::Connection;
use sluicegate_engine::rule::Expr;
use sluicegate_testkit::servers::RedisServer;

use super::*;
use crate::shared_state::list_entry::EntryChange;
use crate::shared_state::{ListKind, build_lists};

fn connect(server: &RedisServer) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn sync(cursor: &mut SyncCursor, store: &mut Connection, bans: &[BanEvent], changes: &[ListChange]) -> SyncResult {
    let Invocation { script, keys, arguments } = cursor.encode(bans, changes);
    let mut command = redis::cmd("EVAL");
    command.arg(&script.source).arg(keys.len());
    for part in keys.iter().chain(&arguments) {
        command.arg(part.as_ref());
    }
    cursor.apply_reply(command.query(store).unwrap()).unwrap()
}

fn ban(key: &[u8], seconds: Option<u64>) -> BanEvent {
    BanEvent {
        rule: "per-ip".to_owned(),
        name: "10.0.0.1".to_owned(),
        key: key.into(),
        remaining: seconds.map(Duration::from_secs),
    }
}

fn cursors() -> [SyncCursor; 2] {
    ["one", "two"].map(|name| SyncCursor::new("test", name.to_owned()))
}

fn keys_without_expiry(store: &mut Connection) -> usize {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(store).unwrap();
    assert!(!keys.is_empty());
    keys.iter().filter(|key| redis::cmd("PTTL").arg(key).query::<i64>(store).unwrap() < 0).count()
}

#[test]
fn a_posted_ban_is_read_once_by_the_other_process() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    assert!(sync(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]).is_reset);
    let observed = sync(&mut two, &mut store, &[], &[]);
    assert_eq!((observed.bans.len(), observed.is_reset, observed.has_more), (1, true, false));
    let received = &observed.bans[0];
    assert_eq!(
        (received.rule.as_str(), received.name.as_str(), received.key.as_bytes()),
        ("per-ip", "10.0.0.1", &b"4aaaa"[..])
    );
    let left = received.remaining.unwrap();
    assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(50), "{left:?}");
    let again = sync(&mut two, &mut store, &[], &[]);
    assert!(again.bans.is_empty() && !again.is_reset);

    // Lifted by the second process, read by the first.
    sync(&mut two, &mut store, &[ban(b"4aaaa", None)], &[]);
    assert_eq!(sync(&mut one, &mut store, &[], &[]).bans.last().unwrap().remaining, None);
    // A shorter ban does not shorten a longer one.
    sync(&mut one, &mut store, &[ban(b"4bbbb", Some(600))], &[]);
    sync(&mut two, &mut store, &[ban(b"4bbbb", Some(5))], &[]);
    let [mut late, _] = cursors();
    let observed = sync(&mut late, &mut store, &[], &[]);
    let ban = observed.bans.iter().find(|ban| ban.key.as_bytes() == b"4bbbb").unwrap();
    assert!(ban.remaining.unwrap() > Duration::from_secs(500));
    assert_eq!(keys_without_expiry(&mut store), 0);
}

#[test]
fn a_flushed_store_is_reported_as_reset() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    sync(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    sync(&mut two, &mut store, &[], &[]);
    redis::cmd("FLUSHALL").exec(&mut store).unwrap();
    assert!(sync(&mut two, &mut store, &[], &[]).is_reset);
    assert!(sync(&mut one, &mut store, &[], &[]).is_reset);
    sync(&mut one, &mut store, &[ban(b"4aaaa", Some(50))], &[]);
    assert_eq!(sync(&mut two, &mut store, &[], &[]).bans.len(), 1);
}

#[test]
fn many_bans_are_read_in_several_syncs() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    let all: Vec<BanEvent> =
        (0..2_500u32).map(|index| ban(&[b"4", &index.to_le_bytes()[..]].concat(), Some(60))).collect();
    sync(&mut one, &mut store, &all, &[]);
    let mut received = 0;
    loop {
        let observed = sync(&mut two, &mut store, &[], &[]);
        received += observed.bans.len();
        if !observed.has_more {
            break;
        }
    }
    assert_eq!(received, all.len());
}

#[test]
fn lists_are_sent_when_they_change() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    let entry = |kind, text: &str, change| ListChange { kind, text: text.to_owned(), change };
    let deny = entry(ListKind::Deny, "client.ip == 10.0.0.1", EntryChange::Add(None));
    let allow = entry(ListKind::Allow, "account == 'boss'", EntryChange::Add(Some(Duration::from_secs(60))));
    sync(
        &mut one,
        &mut store,
        &[],
        &[deny.clone(), allow, entry(ListKind::Deny, "no condition", EntryChange::Add(None))],
    );
    let lists = build_lists(&sync(&mut two, &mut store, &[], &[]).entries.unwrap());
    assert_eq!(lists.deny, [Expr::parse("client.ip == 10.0.0.1").unwrap()]);
    assert_eq!(lists.allow.len(), 1);
    assert_eq!(sync(&mut two, &mut store, &[], &[]).entries, None);
    sync(&mut two, &mut store, &[], &[ListChange { change: EntryChange::Remove, ..deny }]);
    assert!(build_lists(&sync(&mut one, &mut store, &[], &[]).entries.unwrap()).deny.is_empty());
    let short_lived = entry(ListKind::Deny, "method == 'PUT'", EntryChange::Add(Some(Duration::from_millis(1))));
    sync(&mut one, &mut store, &[], &[short_lived]);
    // It expires by the store's own clock.
    let is_removed = (0..1_000).any(|_| {
        sync(&mut one, &mut store, &[], &[]).entries.is_some_and(|entries| build_lists(&entries).deny.is_empty())
    });
    assert!(is_removed);
    assert_eq!(keys_without_expiry(&mut store), 0);
}

#[test]
fn foreign_values_are_removed() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, _] = cursors();
    for part in ["bans", "numbers", "ends", "board", "lists"] {
        redis::cmd("SET").arg(format!("test:{{shared}}:{part}")).arg("mine").exec(&mut store).unwrap();
    }
    sync(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    assert_eq!(keys_without_expiry(&mut store), 0);
}

/// Also for the process that created the state and is the first to sync again.
#[test]
fn a_flushed_store_is_reported_as_reset_to_its_creator() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    sync(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    sync(&mut two, &mut store, &[], &[]);
    redis::cmd("FLUSHALL").exec(&mut store).unwrap();
    assert!(sync(&mut one, &mut store, &[], &[]).is_reset);
    assert!(sync(&mut two, &mut store, &[], &[]).is_reset);
}

/// A promoted replica may lack the last changes. Processes that had read them detect that.
#[test]
fn a_store_that_lost_the_last_changes_is_reported_as_reset() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    sync(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    let mut behind = two.clone();
    sync(&mut behind, &mut store, &[], &[]);
    let dump: Vec<(String, Vec<u8>)> = ["bans", "numbers", "ends", "board"]
        .map(|part| format!("test:{{shared}}:{part}"))
        .map(|key| (key.clone(), redis::cmd("DUMP").arg(&key).query(&mut store).unwrap()))
        .to_vec();
    sync(&mut one, &mut store, &[ban(b"4bbbb", Some(60)), ban(b"4cccc", Some(60))], &[]);
    sync(&mut one, &mut store, &[], &[]);
    sync(&mut two, &mut store, &[], &[]);
    for (key, value) in dump {
        redis::cmd("RESTORE").arg(key).arg(0).arg(value).arg("REPLACE").exec(&mut store).unwrap();
    }
    // A ban after the loss reuses a sequence number that both have seen on another ban.
    let observed = sync(&mut one, &mut store, &[ban(b"4dddd", Some(60))], &[]);
    assert!(observed.is_reset, "two bans were lost");
    let observed = sync(&mut two, &mut store, &[], &[]);
    assert!(observed.is_reset && observed.bans.iter().any(|ban| ban.key.as_bytes() == b"4dddd"));
    assert!(sync(&mut behind, &mut store, &[], &[]).is_reset);
    let again = sync(&mut one, &mut store, &[ban(b"4bbbb", Some(60))], &[]);
    assert!(!again.is_reset && !sync(&mut two, &mut store, &[], &[]).is_reset);
}

/// Lists may be long and every process syncs several times a second: unchanged lists are not read.
#[test]
fn unchanged_lists_are_not_read() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    let entry = |index: u32, change| ListChange { kind: ListKind::Deny, text: format!("path == '/{index}'"), change };
    let all: Vec<ListChange> =
        (0..500).map(|index| entry(index, EntryChange::Add(Some(Duration::from_secs(60))))).collect();
    sync(&mut one, &mut store, &[], &all);
    assert_eq!(sync(&mut two, &mut store, &[], &[]).entries.unwrap().len(), 500);
    let mut reads = || {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut store).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_hgetall:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    let before = reads();
    for _ in 0..20 {
        assert_eq!(sync(&mut two, &mut connect(&server), &[], &[]).entries, None);
    }
    assert_eq!(reads(), before);
    sync(&mut one, &mut connect(&server), &[], &[entry(7, EntryChange::Remove)]);
    assert_eq!(sync(&mut two, &mut connect(&server), &[], &[]).entries.unwrap().len(), 499);
}

/// A process that detects a loss late does not restore entries that were removed since.
#[test]
fn a_removed_entry_is_not_restored() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = cursors();
    let entry = |change| ListChange { kind: ListKind::Deny, text: "method == 'PUT'".to_owned(), change };
    let entry_count = |peeked: SyncResult| peeked.entries.map(|entries| entries.len());
    sync(&mut one, &mut store, &[], &[entry(EntryChange::Restore(None))]);
    assert_eq!(entry_count(sync(&mut two, &mut store, &[], &[])), Some(1), "no other change was sent");
    sync(&mut two, &mut store, &[], &[entry(EntryChange::Remove)]);
    assert_eq!(entry_count(sync(&mut one, &mut store, &[], &[entry(EntryChange::Restore(None))])), Some(0));
    sync(&mut one, &mut store, &[], &[entry(EntryChange::Add(None))]);
    assert_eq!(entry_count(sync(&mut two, &mut store, &[], &[])), Some(1), "an entry added again is kept");
    assert_eq!(keys_without_expiry(&mut store), 0);
}
