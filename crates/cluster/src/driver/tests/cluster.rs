//! A Redis Cluster: every slot its own calls, moved slots followed.

use sluicegate_testkit::servers::RedisCluster;

use super::*;

fn options(cluster: &RedisCluster) -> StoreOptions {
    // Two are not named: they are found.
    StoreOptions::new(Topology::Cluster, cluster.addresses().into_iter().take(1))
}

fn total(cluster: &mut RedisCluster, keys: impl Iterator<Item = String>) -> i64 {
    let mut total = 0;
    for key in keys {
        total += cluster.servers().iter().map(|server| stored(server, &key)).sum::<i64>();
    }
    total
}

#[test]
fn asks_of_all_slots_are_answered_by_their_owners() {
    let mut cluster = RedisCluster::start().unwrap();
    let driver = connected(options(&cluster), AMPLE);
    let asking: Vec<_> = (0..500).map(|nth| driver.ask(add(&format!("{{u{}}}:k", nth % 100), 1))).collect();
    assert!(asking.into_iter().all(|asking| asking.wait().is_ok()));
    assert!(driver.health().calls < 500, "{}", driver.health().calls);
    for server in cluster.servers() {
        assert_ne!(server.command(&["DBSIZE"]).unwrap(), "0");
    }
}

#[test]
fn slots_that_move_under_load_are_followed() {
    let mut cluster = RedisCluster::start().unwrap();
    let driver = connected(options(&cluster), AMPLE);
    let names: Vec<String> = (0..4).map(|nth| format!("{{foo}}:{nth}")).collect();
    let slot = slot_of(b"{foo}");
    assert_eq!(slot, 12182);
    let keys = names.clone();
    let load = Load::start(&driver, 8, move |nth| keys[nth as usize % keys.len()].clone());
    for (from, to) in [(2, 0), (0, 1), (1, 2)] {
        std::thread::sleep(Duration::from_millis(30));
        cluster.begin_move(slot, from, to).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        cluster.move_keys(slot, from, to).unwrap();
        cluster.servers()[to].command(&["SCRIPT", "FLUSH"]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        cluster.end_move(slot, from, to).unwrap();
    }
    let (answers, failures) = load.stop();
    assert!(answers > 0 && failures.is_empty(), "{answers} answers, {failures:?}");
    assert_eq!(total(&mut cluster, names.into_iter()), answers as i64);
    assert_eq!(driver.health().breaker_openings, 0);
}

#[test]
fn keys_on_both_sides_of_a_move_are_asked_for_one_by_one() {
    let mut cluster = RedisCluster::start().unwrap();
    let driver = connected(options(&cluster), AMPLE);
    let ask_all = || {
        let asking: Vec<_> = (0..200).map(|nth| driver.ask(add(&format!("{{foo}}:{}", nth % 4), 1))).collect();
        assert!(asking.into_iter().all(|asking| asking.wait().is_ok()));
    };
    ask_all();
    cluster.begin_move(12182, 2, 0).unwrap();
    let port = cluster.servers()[0].port().to_string();
    let moved = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", "{foo}:1", "{foo}:2"];
    assert_eq!(cluster.servers()[2].command(&moved).unwrap(), "OK");
    ask_all();
    cluster.move_keys(12182, 2, 0).unwrap();
    cluster.end_move(12182, 2, 0).unwrap();
    ask_all();
    for nth in 0..4 {
        assert_eq!(stored(&cluster.servers()[0], &format!("{{foo}}:{nth}")), 150);
    }
    assert!(!driver.now_degraded());
}

#[test]
fn a_dead_primary_costs_only_its_own_slots() {
    let mut cluster = RedisCluster::start().unwrap();
    // Without it the whole cluster would go down with one.
    for server in cluster.servers() {
        server.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).unwrap();
    }
    let driver = connected(options(&cluster), AMPLE);
    assert_eq!(driver.ask(add("foo", 1)).wait(), Ok(1));
    cluster.servers()[2].kill();
    // Of `foo` only failures can come; `bar` stands elsewhere and is answered in between.
    let mut failed = 0;
    while failed < 5 {
        failed += usize::from(driver.ask(add("foo", 1)).wait().is_err());
        until_answered(&driver, "bar");
    }
    cluster.servers()[2].restart().unwrap();
    until_answered(&driver, "foo");
}
