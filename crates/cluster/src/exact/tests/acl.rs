//! Permissions the scripts need: few commands, and no key they do not name.

use std::time::Duration;

use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::{Limit, Rate};

use super::support::{TEST_NOW, TestStore, cluster_of_one, encoded, key_check};
use crate::decision::{DecisionRequest, KeyCheck};
use crate::exact::{Release, Renewal};

/// One limit of each kind.
fn every_limit() -> Vec<Limit> {
    let minute = Duration::from_secs(60);
    vec![
        Limit::token_bucket(Rate::per_second(1).unwrap(), 9).unwrap(),
        Limit::leaky_bucket(Rate::per_second(1).unwrap(), 9).unwrap(),
        Limit::fixed_window(9, minute, Alignment::Epoch).unwrap(),
        Limit::fixed_window(9, minute, Alignment::FirstUse).unwrap(),
        Limit::sliding_window(9, minute, 10).unwrap(),
        Limit::interpolated_window(9, minute).unwrap(),
        Limit::sliding_log(9, minute).unwrap(),
        Limit::sliding_log(8, minute).unwrap(),
        Limit::concurrency(9).unwrap(),
        Limit::warm_up(Rate::per_second(1).unwrap(), minute, 3).unwrap(),
    ]
}

/// Acquires, renews and releases, with each limit alone and with all together.
fn exercise_all_scripts(store: &mut TestStore) {
    let mut sets: Vec<Vec<Limit>> = every_limit().into_iter().map(|limit| vec![limit]).collect();
    sets.push(every_limit());
    for limits in sets {
        let check = KeyCheck { cost: 3, ..key_check(&encoded(&limits)) };
        let (key, limits) = (check.key.clone(), check.limits.clone());
        let requests = [DecisionRequest { checks: [check.clone()].into_iter().collect() }];
        let decision = store.acquire(&requests, TEST_NOW).0[0][0];
        assert!(matches!(decision.check, Check::Now | Check::After(_)));
        if let Some(permit) = check.permit {
            let renewal = Renewal { key: key.clone(), limits: limits.clone(), taken: 3, permit };
            assert_eq!(store.renew(&[renewal], TEST_NOW + 1), [true]);
        }
        for actual in [1, 4] {
            let (key, limits, permit) = (key.clone(), limits.clone(), check.permit);
            store.release(&[Release { key, limits, taken: 3, at: decision.at, actual, permit }], TEST_NOW + 2);
        }
        // Refusals, some after the permits have expired.
        store.check(&KeyCheck { cost: 9, ..check.clone() }, TEST_NOW + 3);
        store.check(&check, TEST_NOW + 3_600_000_000);
        store.check(&KeyCheck { cost: 0, ..check }, TEST_NOW + 7_200_000_000);
    }
}

#[test]
fn the_documented_commands_suffice() {
    let mut store = TestStore::start();
    let rules = "on >secret ~sluicegate:* +evalsha +script|load +time +mget +set +del +getrange +setrange +pexpireat \
                 +zadd +zrem +zscore +zrangebyscore";
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("limiter");
    rules.split_whitespace().for_each(|rule| {
        command.arg(rule);
    });
    command.query::<()>(&mut store.connection).unwrap();
    store.run(&[b"AUTH", b"limiter", b"secret"]);
    exercise_all_scripts(&mut store);
}

#[test]
fn scripts_run_on_a_redis_cluster() {
    let mut store = TestStore::on(cluster_of_one());
    store.run(&[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"]);
    while !redis::cmd("CLUSTER")
        .arg("INFO")
        .query::<String>(&mut store.connection)
        .unwrap()
        .contains("cluster_state:ok")
    {
        std::thread::yield_now();
    }
    exercise_all_scripts(&mut store);
}

#[test]
fn no_key_is_left_without_an_expiry() {
    let mut store = TestStore::start();
    exercise_all_scripts(&mut store);
    let left = store.dump();
    assert!(!left.is_empty());
    assert!(left.iter().all(|(_, _, expiry)| *expiry > 0), "{left:?}");
}
