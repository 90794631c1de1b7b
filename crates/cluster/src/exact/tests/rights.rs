//! What the scripts need of the store: few commands, and no key they do not name.

use std::time::Duration;

use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::{Limit, Rate};

use super::support::{FAR, Store, cluster_of_one, prepared, unit};
use crate::ask::{Ask, Unit};
use crate::exact::{Ending, Renewal};

/// One of each.
fn all() -> Vec<Limit> {
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

/// Takes, renews and ends, of each limit alone and of all together.
fn use_everything(store: &mut Store) {
    let mut sets: Vec<Vec<Limit>> = all().into_iter().map(|limit| vec![limit]).collect();
    sets.push(all());
    for limits in sets {
        let unit = Unit { cost: 3, ..unit(&prepared(&limits)) };
        let (key, limits) = (unit.key.clone(), unit.limits.clone());
        let asks = [Ask { units: [unit.clone()].into_iter().collect() }];
        let said = store.take(&asks, FAR).0[0][0];
        assert!(matches!(said.check, Check::Now | Check::After(_)));
        if let Some(permit) = unit.permit {
            let renewal = Renewal { key: key.clone(), limits: limits.clone(), taken: 3, permit };
            assert_eq!(store.renew(&[renewal], FAR + 1), [true]);
        }
        for actual in [1, 4] {
            let (key, limits, permit) = (key.clone(), limits.clone(), unit.permit);
            store.end(&[Ending { key, limits, taken: 3, at: said.at, actual, permit }], FAR + 2);
        }
        // Refused, some of them after a while: permits that nobody renewed go.
        store.ask(&Unit { cost: 9, ..unit.clone() }, FAR + 3);
        store.ask(&unit, FAR + 3_600_000_000);
        store.ask(&Unit { cost: 0, ..unit }, FAR + 7_200_000_000);
    }
}

#[test]
fn few_commands_are_all_a_user_needs() {
    let mut store = Store::start();
    let rules = "on >secret ~sluicegate:* +evalsha +script|load +time +mget +set +del +getrange +setrange +pexpireat \
                 +zadd +zrem +zscore +zrangebyscore";
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("limiter");
    rules.split_whitespace().for_each(|rule| {
        command.arg(rule);
    });
    command.query::<()>(&mut store.connection).unwrap();
    store.run(&[b"AUTH", b"limiter", b"secret"]);
    use_everything(&mut store);
}

#[test]
fn a_cluster_takes_the_scripts() {
    let mut store = Store::on(cluster_of_one());
    store.run(&[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"]);
    while !redis::cmd("CLUSTER")
        .arg("INFO")
        .query::<String>(&mut store.connection)
        .unwrap()
        .contains("cluster_state:ok")
    {
        std::thread::yield_now();
    }
    use_everything(&mut store);
}

#[test]
fn no_key_is_left_without_an_expiry() {
    let mut store = Store::start();
    use_everything(&mut store);
    let left = store.dump();
    assert!(!left.is_empty());
    assert!(left.iter().all(|(_, _, expiry)| *expiry > 0), "{left:?}");
}
