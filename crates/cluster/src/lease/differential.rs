//! The script against its specification, on a real server.

use redis::{Connection, Value};
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::servers::RedisServer;
use std::time::Duration;

use super::chance::Chance;
use super::ledger::Ledger;
use super::message::{Account, LeaseReply, LeaseRequest, NodeId, Run, SPENT_WRAPS, Taken};
use super::terms::Leasable;
use super::wire::{LEASE, Letter, decode, encode};
use crate::keys::StoreKey;

fn connect(server: &RedisServer) -> Connection {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(&LEASE.source).query(&mut connection).unwrap();
    connection
}

/// Calls the script and, in the same transaction, reads how long the key has to live and takes that away:
/// time in these tests is not the server's.
fn call(connection: &mut Connection, letter: Letter<'_>, now: u64) -> (LeaseReply, i64) {
    let invocation = encode([letter], Some(now));
    let mut script = redis::cmd("EVALSHA");
    script.arg(&invocation.script.sha).arg(invocation.keys.len());
    invocation.keys.iter().chain(&invocation.arguments).for_each(|word| {
        script.arg(&word[..]);
    });
    let key = &letter.key.0[..];
    let mut all = redis::pipe();
    all.atomic().add_command(script).cmd("PTTL").arg(key).cmd("PERSIST").arg(key).ignore();
    let (value, lives): (Value, i64) = all.query(connection).unwrap();
    (decode(&value, 1).unwrap().remove(0), lives)
}

fn some_limits(chance: &mut Chance) -> Vec<Limit> {
    let one = |chance: &mut Chance| {
        let size = [1, 2, 7, 50, 1_000, 1 << 40][chance.below(6) as usize];
        let window = Duration::from_micros(1 + chance.below(3_000_000));
        match chance.below(3) {
            0 => {
                let rate = Rate::per_second([1, 3, 7, 100, 1_000_000_000][chance.below(5) as usize]).unwrap();
                Limit::token_bucket(rate, size.min(200_000))
            }
            1 => Limit::sliding_window(size, window, 1 + chance.below(20) as u32),
            _ => Limit::fixed_window(size, window, Alignment::Epoch),
        }
        .unwrap()
    };
    (0..1 + chance.below(3)).map(|_| one(chance)).collect()
}

/// A request as a node might send it, or as none ever would.
fn some_request(chance: &mut Chance, capacity: u64, sequence: &mut u64) -> LeaseRequest {
    let amount = |chance: &mut Chance| match chance.below(4) {
        0 => 0,
        1 => chance.below(3),
        2 => chance.below(capacity + 2),
        _ => chance.below(capacity / 4 + 2),
    };
    *sequence += chance.below(3);
    let account = Account {
        node: NodeId(u128::from(chance.below(4)) << 64),
        epoch: 1 + u64::from(chance.happens(20)),
        sequence: *sequence,
        // Begins anew now and then.
        spent: (SPENT_WRAPS - 40 + *sequence * 2 + amount(chance)) % SPENT_WRAPS,
        holding: amount(chance),
        want: amount(chance),
        charge: if chance.happens(100) { amount(chance) } else { 0 },
    };
    let takes = (0..chance.below(4)).map(|_| Run { cost: amount(chance), count: 1 + chance.below(5) }).collect();
    LeaseRequest { account, takes, life: 1 + chance.below(2_000_000) }
}

#[test]
fn the_script_does_what_the_ledger_does() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let (mut granted, mut stale) = (0, 0);
    for seed in 0..400 {
        let chance = &mut Chance::new(seed);
        let limits = some_limits(chance);
        let terms = Leasable::of(&limits).unwrap();
        let key = StoreKey(format!("sluicegate:{{{seed}}}:rule:lease").into());
        let mut ledger = Ledger::new(&terms);
        let (mut now, mut sequence) = (1_800_000_000_000_000, 0);
        for step in 0..60 {
            now = match chance.below(10) {
                0 => now,
                1 => now - chance.below(1_000_000),
                2 => now + chance.below(5_000_000),
                _ => now + chance.below(50_000),
            };
            let request = some_request(chance, terms.capacity(), &mut sequence);
            let before = ledger.clone();
            let expected = ledger.apply(&terms, now, &request);
            let (reply, lives) = call(&mut connection, Letter { key: &key, terms: &terms, request: &request }, now);
            assert_eq!(reply, expected, "seed {seed}, step {step}, {limits:?}, {request:?}, {before:?}");
            match reply {
                // Nothing was written: what time alone changes is worked out again next time.
                LeaseReply::Stale => {
                    stale += 1;
                    ledger = before;
                }
                LeaseReply::Done(answer) if answer.reset == 0 => {
                    assert_eq!(lives, -2, "a full ledger is no key");
                    ledger = Ledger::new(&terms);
                }
                LeaseReply::Done(answer) => {
                    granted += answer.granted;
                    let expected = i64::try_from(answer.reset.div_ceil(1_000)).unwrap();
                    assert!((expected - 2_000..=expected).contains(&lives), "{lives} instead of {expected} ms");
                }
            }
        }
    }
    assert!(granted > 1_000 && stale > 1_000, "{granted} {stale}");
}

/// While a rule's numbers are exchanged, processes with the old ones and the new ones speak of one key: whoever has more
/// generous ones forgives nothing that the others have counted.
#[test]
fn what_was_counted_by_other_numbers_stays_counted() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let bucket = |rate| Limit::token_bucket(Rate::per_second(rate).unwrap(), 1_000).unwrap();
    let hour = |most| Limit::fixed_window(most, Duration::from_secs(3_600), Alignment::Epoch).unwrap();
    for (nth, [one, other]) in [[bucket(10), bucket(1_000)], [hour(1_000), hour(100)]].into_iter().enumerate() {
        let key = StoreKey(format!("sluicegate:{{k}}:{nth}:lease").into());
        let mut ledger = Ledger::new(&Leasable::of(&[one]).unwrap());
        let mut admitted = 0;
        for sequence in 1..=5 {
            for (node, limit, wanted, charge) in [(1, one, 1_000, 0), (2, other, 0, sequence)] {
                let terms = Leasable::of(&[limit]).unwrap();
                let account = Account { node: NodeId(node), epoch: 1, sequence, spent: 0, holding: 0, want: 0, charge };
                let takes = [Run { cost: 1, count: wanted }].into_iter().filter(|run| run.count > 0).collect();
                let request = LeaseRequest { account, takes, life: 1_000_000 };
                let now = 1_800_000_000_000_000;
                let expected = ledger.apply(&terms, now, &request);
                let (reply, _) = call(&mut connection, Letter { key: &key, terms: &terms, request: &request }, now);
                assert_eq!(reply, expected, "{limit:?}");
                let LeaseReply::Done(answer) = reply else { panic!("stale") };
                admitted += answer.takes.first().map_or(0, |taken| taken.admitted);
            }
        }
        assert_eq!(admitted, 1_000, "{one:?} beside {other:?}");
    }
}

/// However much more something has cost than was thought, a bucket owes all of it.
#[test]
fn what_is_charged_beyond_two_bursts_is_owed() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let terms = Leasable::of(&[Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap()]).unwrap();
    let key = StoreKey("sluicegate:{k}:owed:lease".into());
    let mut ask = |sequence, charge, seconds: u64| {
        let account = Account { node: NodeId(1), epoch: 1, sequence, spent: 0, holding: 0, want: 0, charge };
        let takes = [Run { cost: 1, count: 1 }].into_iter().collect();
        let request = LeaseRequest { account, takes, life: 1_000_000 };
        let now = 1_800_000_000_000_000 + seconds * 1_000_000;
        let (reply, _) = call(&mut connection, Letter { key: &key, terms: &terms, request: &request }, now);
        let LeaseReply::Done(answer) = reply else { panic!("stale") };
        answer.takes[0]
    };
    // Of a thousand tokens, a hundred seconds' worth, one second is the burst.
    assert_eq!(ask(1, 1_000, 0), Taken { admitted: 0, wait: 99_100_000_000 });
    assert_eq!(ask(2, 0, 99).admitted, 0);
    assert_eq!(ask(3, 0, 100).admitted, 1);
}

#[test]
fn foreign_values_are_replaced() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let terms = Leasable::of(&["10/s".parse().unwrap()]).unwrap();
    let bucket = Leasable::of(&[Limit::token_bucket(Rate::per_second(1).unwrap(), 5).unwrap()]).unwrap();
    let key = StoreKey("sluicegate:{k}:rule:lease".into());
    let takes = [Run { cost: 1, count: 3 }].into_iter().collect();
    let account = Account { node: NodeId(1), epoch: 1, sequence: 1, spent: 0, holding: 0, want: 0, charge: 0 };
    let request = LeaseRequest { account, takes, life: 1_000_000 };
    let foreign = [
        "",
        "l1",
        "l1 5",
        "l1 5 w x",
        "l1 5 w 99999999",
        "l1 5 w 0 1 a b c d e f",
        "l1 5 w 0 999999",
        "l1 5 w 0 0 7",
        "\0",
    ];
    let expect_healed = |connection: &mut Connection, terms: &Leasable| {
        let (reply, lives) = call(connection, Letter { key: &key, terms, request: &request }, 1_800_000_000_000_000);
        let LeaseReply::Done(answer) = reply else { panic!("stale") };
        assert!(answer.healed && answer.takes[0].admitted == 3 && lives > 0, "{answer:?}");
    };
    for text in foreign {
        let _: () = redis::cmd("SET").arg("sluicegate:{k}:rule:lease").arg(text).query(&mut connection).unwrap();
        expect_healed(&mut connection, &terms);
    }
    // Other limits have another ledger.
    expect_healed(&mut connection, &bucket);
    let _: () = redis::cmd("DEL").arg("sluicegate:{k}:rule:lease").query(&mut connection).unwrap();
    let _: () = redis::cmd("LPUSH").arg("sluicegate:{k}:rule:lease").arg("x").query(&mut connection).unwrap();
    expect_healed(&mut connection, &terms);
}

#[test]
fn by_the_servers_own_clock_no_key_stays_for_ever() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let terms = Leasable::of(&["10/s".parse().unwrap()]).unwrap();
    let keys: Vec<StoreKey> = (0..3).map(|n| StoreKey(format!("sluicegate:{{k}}:{n}:lease").into())).collect();
    let account = Account { node: NodeId(7), epoch: 1, sequence: 1, spent: 0, holding: 0, want: 2, charge: 0 };
    let leased = LeaseRequest { account, takes: Default::default(), life: 2_000_000 };
    let looked = LeaseRequest { account: Account { want: 0, ..account }, takes: Default::default(), life: 0 };
    let requests = [&leased, &leased, &looked];
    let letters = keys.iter().zip(requests).map(|(key, request)| Letter { key, terms: &terms, request });
    let invocation = encode(letters, None);
    let mut script = redis::cmd("EVALSHA");
    script.arg(&invocation.script.sha).arg(3);
    invocation.keys.iter().chain(&invocation.arguments).for_each(|word| {
        script.arg(&word[..]);
    });
    let replies = decode(&script.query(&mut connection).unwrap(), 3).unwrap();
    let granted = replies.iter().map(|reply| match reply {
        LeaseReply::Done(answer) => answer.granted,
        LeaseReply::Stale => 99,
    });
    assert_eq!(granted.collect::<Vec<_>>(), [2, 2, 0]);
    let lives = |connection: &mut Connection, at: usize| -> i64 {
        redis::cmd("PTTL").arg(&keys[at].0[..]).query(connection).unwrap()
    };
    // Two seconds of lease, and a window and a cell until that is forgotten.
    for at in 0..2 {
        assert!((1..=3_200).contains(&lives(&mut connection, at)));
    }
    assert_eq!(lives(&mut connection, 2), -2);
}
