//! Differential test: `lease.lua` against its model, on a real server.

use redis::{Connection, Value};
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::random::SplitMix64;
use sluicegate_testkit::servers::RedisServer;
use std::time::Duration;

use super::codec::{LEASE, LeaseFrame, decode, encode};
use super::message::{Account, CostRun, LeaseReply, LeaseRequest, NodeId, RunResult, SPENT_MODULUS};
use super::model::LeaseModel;
use super::params::LeaseParams;
use crate::keys::StoreKey;

fn connect(server: &RedisServer) -> Connection {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(&LEASE.source).query(&mut connection).unwrap();
    connection
}

/// Calls the script and, in the same transaction, reads and removes the key's expiry:
/// time in these tests is not the server's.
fn call(connection: &mut Connection, frame: LeaseFrame<'_>, now: u64) -> (LeaseReply, i64) {
    let invocation = encode([frame], Some(now));
    let mut script = redis::cmd("EVALSHA");
    script.arg(&invocation.script.sha).arg(invocation.keys.len());
    invocation.keys.iter().chain(&invocation.arguments).for_each(|word| {
        script.arg(&word[..]);
    });
    let key = &frame.key.0[..];
    let mut all = redis::pipe();
    all.atomic().add_command(script).cmd("PTTL").arg(key).cmd("PERSIST").arg(key).ignore();
    let (value, ttl): (Value, i64) = all.query(connection).unwrap();
    (decode(&value, 1).unwrap().remove(0), ttl)
}

fn some_limits(rng: &mut SplitMix64) -> Vec<Limit> {
    let one = |rng: &mut SplitMix64| {
        let size = [1, 2, 7, 50, 1_000, 1 << 40][rng.below(6) as usize];
        let window = Duration::from_micros(1 + rng.below(3_000_000));
        match rng.below(3) {
            0 => {
                let rate = Rate::per_second([1, 3, 7, 100, 1_000_000_000][rng.below(5) as usize]).unwrap();
                Limit::token_bucket(rate, size.min(200_000))
            }
            1 => Limit::sliding_window(size, window, 1 + rng.below(20) as u32),
            _ => Limit::fixed_window(size, window, Alignment::Epoch),
        }
        .unwrap()
    };
    (0..1 + rng.below(3)).map(|_| one(rng)).collect()
}

/// A random request, valid or not.
fn some_request(rng: &mut SplitMix64, capacity: u64, sequence: &mut u64) -> LeaseRequest {
    let amount = |rng: &mut SplitMix64| match rng.below(4) {
        0 => 0,
        1 => rng.below(3),
        2 => rng.below(capacity + 2),
        _ => rng.below(capacity / 4 + 2),
    };
    *sequence += rng.below(3);
    let account = Account {
        node: NodeId(u128::from(rng.below(4)) << 64),
        epoch: 1 + u64::from(rng.happens(20)),
        sequence: *sequence,
        // Wraps around now and then.
        spent: (SPENT_MODULUS - 40 + *sequence * 2 + amount(rng)) % SPENT_MODULUS,
        holding: amount(rng),
        want: amount(rng),
        charge: if rng.happens(100) { amount(rng) } else { 0 },
    };
    let takes = (0..rng.below(4)).map(|_| CostRun { cost: amount(rng), count: 1 + rng.below(5) }).collect();
    LeaseRequest { account, takes, duration: 1 + rng.below(2_000_000) }
}

#[test]
fn the_script_matches_the_model() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let (mut granted, mut stale) = (0, 0);
    for seed in 0..400 {
        let rng = &mut SplitMix64::new(seed);
        let limits = some_limits(rng);
        let params = LeaseParams::from_limits(&limits).unwrap();
        let key = StoreKey(format!("sluicegate:{{{seed}}}:rule:lease").into());
        let mut model = LeaseModel::new(&params);
        let (mut now, mut sequence) = (1_800_000_000_000_000, 0);
        for step in 0..60 {
            now = match rng.below(10) {
                0 => now,
                1 => now - rng.below(1_000_000),
                2 => now + rng.below(5_000_000),
                _ => now + rng.below(50_000),
            };
            let request = some_request(rng, params.capacity(), &mut sequence);
            let before = model.clone();
            let expected = model.apply(&params, now, &request);
            let (reply, ttl) = call(&mut connection, LeaseFrame { key: &key, params: &params, request: &request }, now);
            assert_eq!(reply, expected, "seed {seed}, step {step}, {limits:?}, {request:?}, {before:?}");
            match reply {
                // Nothing was written: changes by time alone are recomputed next time.
                LeaseReply::Stale => {
                    stale += 1;
                    model = before;
                }
                LeaseReply::Done(reply) if reply.reset == 0 => {
                    assert_eq!(ttl, -2, "a full lease state has no key");
                    model = LeaseModel::new(&params);
                }
                LeaseReply::Done(reply) => {
                    granted += reply.granted;
                    let expected = i64::try_from(reply.reset.div_ceil(1_000)).unwrap();
                    assert!((expected - 2_000..=expected).contains(&ttl), "{ttl} instead of {expected} ms");
                }
            }
        }
    }
    assert!(granted > 1_000 && stale > 1_000, "{granted} {stale}");
}

/// During a rule change, processes with the old and the new limits use one key: the more generous
/// limits must not forgive usage counted under the others.
#[test]
fn usage_counted_under_other_limits_stays_counted() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let bucket = |rate| Limit::token_bucket(Rate::per_second(rate).unwrap(), 1_000).unwrap();
    let hour = |max| Limit::fixed_window(max, Duration::from_secs(3_600), Alignment::Epoch).unwrap();
    for (index, [one, other]) in [[bucket(10), bucket(1_000)], [hour(1_000), hour(100)]].into_iter().enumerate() {
        let key = StoreKey(format!("sluicegate:{{k}}:{index}:lease").into());
        let mut model = LeaseModel::new(&LeaseParams::from_limits(&[one]).unwrap());
        let mut admitted = 0;
        for sequence in 1..=5 {
            for (node, limit, wanted, charge) in [(1, one, 1_000, 0), (2, other, 0, sequence)] {
                let params = LeaseParams::from_limits(&[limit]).unwrap();
                let account = Account { node: NodeId(node), epoch: 1, sequence, spent: 0, holding: 0, want: 0, charge };
                let takes = [CostRun { cost: 1, count: wanted }].into_iter().filter(|run| run.count > 0).collect();
                let request = LeaseRequest { account, takes, duration: 1_000_000 };
                let now = 1_800_000_000_000_000;
                let expected = model.apply(&params, now, &request);
                let (reply, _) =
                    call(&mut connection, LeaseFrame { key: &key, params: &params, request: &request }, now);
                assert_eq!(reply, expected, "{limit:?}");
                let LeaseReply::Done(reply) = reply else { panic!("stale") };
                admitted += reply.takes.first().map_or(0, |taken| taken.admitted);
            }
        }
        assert_eq!(admitted, 1_000, "{one:?} beside {other:?}");
    }
}

/// A bucket owes the full overrun, however large.
#[test]
fn charges_beyond_two_bursts_become_debt() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let params = LeaseParams::from_limits(&[Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap()]).unwrap();
    let key = StoreKey("sluicegate:{k}:owed:lease".into());
    let mut take_one = |sequence, charge, seconds: u64| {
        let account = Account { node: NodeId(1), epoch: 1, sequence, spent: 0, holding: 0, want: 0, charge };
        let takes = [CostRun { cost: 1, count: 1 }].into_iter().collect();
        let request = LeaseRequest { account, takes, duration: 1_000_000 };
        let now = 1_800_000_000_000_000 + seconds * 1_000_000;
        let (reply, _) = call(&mut connection, LeaseFrame { key: &key, params: &params, request: &request }, now);
        let LeaseReply::Done(reply) = reply else { panic!("stale") };
        reply.takes[0]
    };
    // A thousand tokens take a hundred seconds, and the burst covers one of them.
    assert_eq!(take_one(1, 1_000, 0), RunResult { admitted: 0, wait: 99_100_000_000 });
    assert_eq!(take_one(2, 0, 99).admitted, 0);
    assert_eq!(take_one(3, 0, 100).admitted, 1);
}

#[test]
fn foreign_values_are_replaced() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let params = LeaseParams::from_limits(&["10/s".parse().unwrap()]).unwrap();
    let bucket = LeaseParams::from_limits(&[Limit::token_bucket(Rate::per_second(1).unwrap(), 5).unwrap()]).unwrap();
    let key = StoreKey("sluicegate:{k}:rule:lease".into());
    let takes = [CostRun { cost: 1, count: 3 }].into_iter().collect();
    let account = Account { node: NodeId(1), epoch: 1, sequence: 1, spent: 0, holding: 0, want: 0, charge: 0 };
    let request = LeaseRequest { account, takes, duration: 1_000_000 };
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
    let expect_replaced = |connection: &mut Connection, params: &LeaseParams| {
        let (reply, ttl) = call(connection, LeaseFrame { key: &key, params, request: &request }, 1_800_000_000_000_000);
        let LeaseReply::Done(reply) = reply else { panic!("stale") };
        assert!(reply.replaced && reply.takes[0].admitted == 3 && ttl > 0, "{reply:?}");
    };
    for text in foreign {
        let _: () = redis::cmd("SET").arg("sluicegate:{k}:rule:lease").arg(text).query(&mut connection).unwrap();
        expect_replaced(&mut connection, &params);
    }
    // Different limits have a different state.
    expect_replaced(&mut connection, &bucket);
    let _: () = redis::cmd("DEL").arg("sluicegate:{k}:rule:lease").query(&mut connection).unwrap();
    let _: () = redis::cmd("LPUSH").arg("sluicegate:{k}:rule:lease").arg("x").query(&mut connection).unwrap();
    expect_replaced(&mut connection, &params);
}

#[test]
fn every_key_expires_by_the_server_clock() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(&server);
    let params = LeaseParams::from_limits(&["10/s".parse().unwrap()]).unwrap();
    let keys: Vec<StoreKey> = (0..3).map(|n| StoreKey(format!("sluicegate:{{k}}:{n}:lease").into())).collect();
    let account = Account { node: NodeId(7), epoch: 1, sequence: 1, spent: 0, holding: 0, want: 2, charge: 0 };
    let leased = LeaseRequest { account, takes: Default::default(), duration: 2_000_000 };
    let empty_request =
        LeaseRequest { account: Account { want: 0, ..account }, takes: Default::default(), duration: 0 };
    let requests = [&leased, &leased, &empty_request];
    let frames = keys.iter().zip(requests).map(|(key, request)| LeaseFrame { key, params: &params, request });
    let invocation = encode(frames, None);
    let mut script = redis::cmd("EVALSHA");
    script.arg(&invocation.script.sha).arg(3);
    invocation.keys.iter().chain(&invocation.arguments).for_each(|word| {
        script.arg(&word[..]);
    });
    let replies = decode(&script.query(&mut connection).unwrap(), 3).unwrap();
    let granted = replies.iter().map(|reply| match reply {
        LeaseReply::Done(reply) => reply.granted,
        LeaseReply::Stale => 99,
    });
    assert_eq!(granted.collect::<Vec<_>>(), [2, 2, 0]);
    let ttl = |connection: &mut Connection, at: usize| -> i64 {
        redis::cmd("PTTL").arg(&keys[at].0[..]).query(connection).unwrap()
    };
    // Two seconds of lease, then a window and a cell until the usage is forgotten.
    for at in 0..2 {
        assert!((1..=3_200).contains(&ttl(&mut connection, at)));
    }
    assert_eq!(ttl(&mut connection, 2), -2);
}
