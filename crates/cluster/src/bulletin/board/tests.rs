#![allow(clippy::unwrap_used, reason = "a test")]

use redis::Connection;
use sluicegate_engine::rule::Expr;
use sluicegate_testkit::servers::RedisServer;

use super::*;
use crate::bulletin::entry::Change;
use crate::bulletin::{ListKind, lists};

fn connect(server: &RedisServer) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn look(board: &mut Board, store: &mut Connection, bans: &[BanNews], changes: &[ListChange]) -> Look {
    let Invocation { script, keys, arguments } = board.look(bans, changes);
    let mut command = redis::cmd("EVAL");
    command.arg(&script.source).arg(keys.len());
    for part in keys.iter().chain(&arguments) {
        command.arg(part.as_ref());
    }
    board.read(command.query(store).unwrap()).unwrap()
}

fn ban(key: &[u8], seconds: Option<u64>) -> BanNews {
    BanNews {
        rule: "per-ip".to_owned(),
        name: "10.0.0.1".to_owned(),
        key: key.into(),
        remaining: seconds.map(Duration::from_secs),
    }
}

fn boards() -> [Board; 2] {
    ["one", "two"].map(|name| Board::new("test", name.to_owned()))
}

fn keys_without_expiry(store: &mut Connection) -> usize {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(store).unwrap();
    assert!(!keys.is_empty());
    keys.iter().filter(|key| redis::cmd("PTTL").arg(key).query::<i64>(store).unwrap() < 0).count()
}

#[test]
fn what_one_posts_the_other_reads_once() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    assert!(look(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]).is_new);
    let seen = look(&mut two, &mut store, &[], &[]);
    assert_eq!((seen.bans.len(), seen.is_new, seen.more), (1, true, false));
    let heard = &seen.bans[0];
    assert_eq!((heard.rule.as_str(), heard.name.as_str(), heard.key.as_bytes()), ("per-ip", "10.0.0.1", &b"4aaaa"[..]));
    let left = heard.remaining.unwrap();
    assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(50), "{left:?}");
    let again = look(&mut two, &mut store, &[], &[]);
    assert!(again.bans.is_empty() && !again.is_new);

    // Lifted by the other, heard by the first.
    look(&mut two, &mut store, &[ban(b"4aaaa", None)], &[]);
    assert_eq!(look(&mut one, &mut store, &[], &[]).bans.last().unwrap().remaining, None);
    // A shorter ban does not shorten a longer one.
    look(&mut one, &mut store, &[ban(b"4bbbb", Some(600))], &[]);
    look(&mut two, &mut store, &[ban(b"4bbbb", Some(5))], &[]);
    let [mut late, _] = boards();
    let seen = look(&mut late, &mut store, &[], &[]);
    let ban = seen.bans.iter().find(|ban| ban.key.as_bytes() == b"4bbbb").unwrap();
    assert!(ban.remaining.unwrap() > Duration::from_secs(500));
    assert_eq!(keys_without_expiry(&mut store), 0);
}

#[test]
fn a_store_that_forgot_is_another_board() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    look(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    look(&mut two, &mut store, &[], &[]);
    redis::cmd("FLUSHALL").exec(&mut store).unwrap();
    assert!(look(&mut two, &mut store, &[], &[]).is_new);
    assert!(look(&mut one, &mut store, &[], &[]).is_new);
    look(&mut one, &mut store, &[ban(b"4aaaa", Some(50))], &[]);
    assert_eq!(look(&mut two, &mut store, &[], &[]).bans.len(), 1);
}

#[test]
fn many_bans_are_read_in_several_looks() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    let all: Vec<BanNews> = (0..2_500u32).map(|nth| ban(&[b"4", &nth.to_le_bytes()[..]].concat(), Some(60))).collect();
    look(&mut one, &mut store, &all, &[]);
    let mut heard = 0;
    loop {
        let seen = look(&mut two, &mut store, &[], &[]);
        heard += seen.bans.len();
        if !seen.more {
            break;
        }
    }
    assert_eq!(heard, all.len());
}

#[test]
fn lists_are_told_when_they_change() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    let entry = |kind, text: &str, change| ListChange { kind, text: text.to_owned(), change };
    let deny = entry(ListKind::Deny, "client.ip == 10.0.0.1", Change::Add(None));
    let allow = entry(ListKind::Allow, "account == 'boss'", Change::Add(Some(Duration::from_secs(60))));
    look(&mut one, &mut store, &[], &[deny.clone(), allow, entry(ListKind::Deny, "no condition", Change::Add(None))]);
    let told = lists(&look(&mut two, &mut store, &[], &[]).entries.unwrap());
    assert_eq!(told.deny, [Expr::parse("client.ip == 10.0.0.1").unwrap()]);
    assert_eq!(told.allow.len(), 1);
    assert_eq!(look(&mut two, &mut store, &[], &[]).entries, None);
    look(&mut two, &mut store, &[], &[ListChange { change: Change::Remove, ..deny }]);
    assert!(lists(&look(&mut one, &mut store, &[], &[]).entries.unwrap()).deny.is_empty());
    let brief = entry(ListKind::Deny, "method == 'PUT'", Change::Add(Some(Duration::from_millis(1))));
    look(&mut one, &mut store, &[], &[brief]);
    // The store's own clock lets it go.
    let gone = (0..1_000)
        .any(|_| look(&mut one, &mut store, &[], &[]).entries.is_some_and(|entries| lists(&entries).deny.is_empty()));
    assert!(gone);
    assert_eq!(keys_without_expiry(&mut store), 0);
}

#[test]
fn foreign_values_are_cleared_away() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, _] = boards();
    for part in ["bans", "numbers", "ends", "board", "lists"] {
        redis::cmd("SET").arg(format!("test:{{bulletin}}:{part}")).arg("mine").exec(&mut store).unwrap();
    }
    look(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    assert_eq!(keys_without_expiry(&mut store), 0);
}

/// Also for the process that gave the board its name, and is the first to look again.
#[test]
fn a_store_that_forgot_is_another_board_for_its_founder() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    look(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    look(&mut two, &mut store, &[], &[]);
    redis::cmd("FLUSHALL").exec(&mut store).unwrap();
    assert!(look(&mut one, &mut store, &[], &[]).is_new);
    assert!(look(&mut two, &mut store, &[], &[]).is_new);
}

/// A replica that became the primary may lack the last changes. Whoever knew them sees that.
#[test]
fn a_store_that_forgot_the_last_changes_is_another_board() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    look(&mut one, &mut store, &[ban(b"4aaaa", Some(60))], &[]);
    let mut behind = two.clone();
    look(&mut behind, &mut store, &[], &[]);
    let dump: Vec<(String, Vec<u8>)> = ["bans", "numbers", "ends", "board"]
        .map(|part| format!("test:{{bulletin}}:{part}"))
        .map(|key| (key.clone(), redis::cmd("DUMP").arg(&key).query(&mut store).unwrap()))
        .to_vec();
    look(&mut one, &mut store, &[ban(b"4bbbb", Some(60)), ban(b"4cccc", Some(60))], &[]);
    look(&mut one, &mut store, &[], &[]);
    look(&mut two, &mut store, &[], &[]);
    for (key, value) in dump {
        redis::cmd("RESTORE").arg(key).arg(0).arg(value).arg("REPLACE").exec(&mut store).unwrap();
    }
    // A ban after the loss has a number that both have seen on another ban.
    let seen = look(&mut one, &mut store, &[ban(b"4dddd", Some(60))], &[]);
    assert!(seen.is_new, "it has lost two bans");
    let seen = look(&mut two, &mut store, &[], &[]);
    assert!(seen.is_new && seen.bans.iter().any(|ban| ban.key.as_bytes() == b"4dddd"));
    assert!(look(&mut behind, &mut store, &[], &[]).is_new);
    let again = look(&mut one, &mut store, &[ban(b"4bbbb", Some(60))], &[]);
    assert!(!again.is_new && !look(&mut two, &mut store, &[], &[]).is_new);
}

/// Lists may be long, and everybody looks several times a second: they are read only by who needs them.
#[test]
fn lists_are_not_read_for_who_knows_them() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    let entry = |nth: u32, change| ListChange { kind: ListKind::Deny, text: format!("path == '/{nth}'"), change };
    let all: Vec<ListChange> = (0..500).map(|nth| entry(nth, Change::Add(Some(Duration::from_secs(60))))).collect();
    look(&mut one, &mut store, &[], &all);
    assert_eq!(look(&mut two, &mut store, &[], &[]).entries.unwrap().len(), 500);
    let mut reads = || {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut store).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_hgetall:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    let before = reads();
    for _ in 0..20 {
        assert_eq!(look(&mut two, &mut connect(&server), &[], &[]).entries, None);
    }
    assert_eq!(reads(), before);
    look(&mut one, &mut connect(&server), &[], &[entry(7, Change::Remove)]);
    assert_eq!(look(&mut two, &mut connect(&server), &[], &[]).entries.unwrap().len(), 499);
}

/// A process that notices a loss late does not bring back what was taken off since.
#[test]
fn what_was_taken_off_is_not_posted_again() {
    let server = RedisServer::start().unwrap();
    let mut store = connect(&server);
    let [mut one, mut two] = boards();
    let entry = |change| ListChange { kind: ListKind::Deny, text: "method == 'PUT'".to_owned(), change };
    let stands = |look: Look| look.entries.map(|entries| entries.len());
    look(&mut one, &mut store, &[], &[entry(Change::Again(None))]);
    assert_eq!(stands(look(&mut two, &mut store, &[], &[])), Some(1), "nobody has said anything else");
    look(&mut two, &mut store, &[], &[entry(Change::Remove)]);
    assert_eq!(stands(look(&mut one, &mut store, &[], &[entry(Change::Again(None))])), Some(0));
    look(&mut one, &mut store, &[], &[entry(Change::Add(None))]);
    assert_eq!(stands(look(&mut two, &mut store, &[], &[])), Some(1), "put there anew, it stands");
    assert_eq!(keys_without_expiry(&mut store), 0);
}
