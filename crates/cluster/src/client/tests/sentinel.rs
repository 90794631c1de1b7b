//! The primary named by the sentinels, also after a failover.

use sluicegate_testkit::servers::SentinelGroup;

use super::*;

fn options(group: &SentinelGroup) -> StoreOptions {
    // The first of these is dead: the next one is queried.
    StoreOptions::new(Topology::Sentinel(SentinelGroup::NAME.into()), ["127.0.0.1:1".to_owned(), group.address()])
}

#[test]
fn a_dead_primary_is_replaced_under_load() {
    let mut group = SentinelGroup::start().unwrap();
    let client = connected(options(&group), LONG_DEADLINE);
    let load = LoadThreads::start(&client, 4, |_| "k".to_owned());
    std::thread::sleep(Duration::from_millis(100));
    group.first_primary().kill();
    until("degraded", || client.is_degraded());
    let elapsed = until("back", || !client.is_degraded());
    eprintln!("failed over after {elapsed:?}");
    until_reply(&client, "after");
    let (replies, _) = load.stop();
    assert!(replies > 0);
    assert_eq!(stored(group.first_replica(), "after"), 1);
}

#[test]
fn a_demoted_primary_is_abandoned() {
    let mut group = SentinelGroup::start().unwrap();
    let client = connected(options(&group), LONG_DEADLINE);
    let load = LoadThreads::start(&client, 4, |_| "k".to_owned());
    group.fail_over().unwrap();
    let elapsed =
        until("at the new primary", || stored(group.first_replica(), "k") > 0 && client.health().reconnects > 0);
    eprintln!("followed after {elapsed:?}");
    until_reply(&client, "after");
    assert_eq!(stored(group.first_replica(), "after"), 1);
    assert!(load.stop().0 > 0);
}

#[test]
fn an_unknown_primary_name_is_reported() {
    let group = SentinelGroup::start().unwrap();
    let client = start(&StoreOptions::new(Topology::Sentinel("other".into()), [group.address()]));
    until("error reported", || {
        client.health().last_error.is_some_and(|error| error.contains("has no primary `other`"))
    });
    assert!(client.is_degraded());
}
