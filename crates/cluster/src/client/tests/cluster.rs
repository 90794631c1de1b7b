//! Redis Cluster: separate calls per slot; migrated slots are followed.

use sluicegate_testkit::servers::RedisCluster;

use super::*;

fn options(cluster: &RedisCluster) -> StoreOptions {
    // The other two nodes are discovered.
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
fn calls_to_all_slots_are_served_by_their_owners() {
    let mut cluster = RedisCluster::start().unwrap();
    let client = connected(options(&cluster), LONG_DEADLINE);
    let pending: Vec<_> = (0..500).map(|index| client.submit(add(&format!("{{u{}}}:k", index % 100), 1))).collect();
    assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    assert!(client.health().calls < 500, "{}", client.health().calls);
    for server in cluster.servers() {
        assert_ne!(server.command(&["DBSIZE"]).unwrap(), "0");
    }
}

#[test]
fn slots_that_move_under_load_are_followed() {
    let mut cluster = RedisCluster::start().unwrap();
    let client = connected(options(&cluster), LONG_DEADLINE);
    let names: Vec<String> = (0..4).map(|index| format!("{{foo}}:{index}")).collect();
    let slot = slot_of(b"{foo}");
    assert_eq!(slot, 12182);
    let keys = names.clone();
    let load = LoadThreads::start(&client, 8, move |index| keys[index as usize % keys.len()].clone());
    for (from, to) in [(2, 0), (0, 1), (1, 2)] {
        std::thread::sleep(Duration::from_millis(30));
        cluster.begin_slot_migration(slot, from, to).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        cluster.migrate_keys(slot, from, to).unwrap();
        cluster.servers()[to].command(&["SCRIPT", "FLUSH"]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        cluster.finish_slot_migration(slot, from, to).unwrap();
    }
    let (replies, failures) = load.stop();
    assert!(replies > 0 && failures.is_empty(), "{replies} replies, {failures:?}");
    assert_eq!(total(&mut cluster, names.into_iter()), replies as i64);
    assert_eq!(client.health().breaker_openings, 0);
}

#[test]
fn keys_split_by_a_slot_migration_are_called_one_by_one() {
    let mut cluster = RedisCluster::start().unwrap();
    let client = connected(options(&cluster), LONG_DEADLINE);
    let submit_all = || {
        let pending: Vec<_> = (0..200).map(|index| client.submit(add(&format!("{{foo}}:{}", index % 4), 1))).collect();
        assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    };
    submit_all();
    cluster.begin_slot_migration(12182, 2, 0).unwrap();
    let port = cluster.servers()[0].port().to_string();
    let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", "{foo}:1", "{foo}:2"];
    assert_eq!(cluster.servers()[2].command(&migrate).unwrap(), "OK");
    submit_all();
    cluster.migrate_keys(12182, 2, 0).unwrap();
    cluster.finish_slot_migration(12182, 2, 0).unwrap();
    submit_all();
    for index in 0..4 {
        assert_eq!(stored(&cluster.servers()[0], &format!("{{foo}}:{index}")), 150);
    }
    assert!(!client.is_degraded());
}

#[test]
fn a_dead_primary_fails_only_its_own_slots() {
    let mut cluster = RedisCluster::start().unwrap();
    // Otherwise the whole cluster goes down with one node.
    for server in cluster.servers() {
        server.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).unwrap();
    }
    let client = connected(options(&cluster), LONG_DEADLINE);
    assert_eq!(client.submit(add("foo", 1)).wait(), Ok(1));
    cluster.servers()[2].kill();
    // Calls for `foo` can only fail; `bar` is on another node and succeeds in between.
    let mut failed = 0;
    while failed < 5 {
        failed += usize::from(client.submit(add("foo", 1)).wait().is_err());
        until_reply(&client, "bar");
    }
    cluster.servers()[2].restart().unwrap();
    until_reply(&client, "foo");
}
