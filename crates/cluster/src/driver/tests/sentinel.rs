//! The primary that sentinels name, also when it changes.

use sluicegate_testkit::servers::SentinelGroup;

use super::*;

fn options(group: &SentinelGroup) -> StoreOptions {
    // The first of these is dead: the next one is asked.
    StoreOptions::new(Topology::Sentinel(SentinelGroup::NAME.into()), ["127.0.0.1:1".to_owned(), group.address()])
}

#[test]
fn a_dead_primary_is_replaced_under_load() {
    let mut group = SentinelGroup::start().unwrap();
    let driver = connected(options(&group), AMPLE);
    let load = Load::start(&driver, 4, |_| "k".to_owned());
    std::thread::sleep(Duration::from_millis(100));
    group.first_primary().kill();
    until("degraded", || driver.now_degraded());
    let took = until("back", || !driver.now_degraded());
    eprintln!("failed over after {took:?}");
    until_answered(&driver, "after");
    let (answers, _) = load.stop();
    assert!(answers > 0);
    assert_eq!(stored(group.first_replica(), "after"), 1);
}

#[test]
fn a_primary_that_steps_down_is_left() {
    let mut group = SentinelGroup::start().unwrap();
    let driver = connected(options(&group), AMPLE);
    let load = Load::start(&driver, 4, |_| "k".to_owned());
    group.fail_over().unwrap();
    let took = until("at the new primary", || stored(group.first_replica(), "k") > 0 && driver.health().reconnects > 0);
    eprintln!("followed after {took:?}");
    until_answered(&driver, "after");
    assert_eq!(stored(group.first_replica(), "after"), 1);
    assert!(load.stop().0 > 0);
}

#[test]
fn a_name_that_no_sentinel_knows_is_told() {
    let group = SentinelGroup::start().unwrap();
    let driver = start(&StoreOptions::new(Topology::Sentinel("other".into()), [group.address()]));
    until("told", || driver.health().last_error.is_some_and(|error| error.contains("knows no primary `other`")));
    assert!(driver.now_degraded());
}
