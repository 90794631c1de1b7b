//! Two processes with one store, a real one.

use std::time::Duration;

use sluicegate::cluster::store_of;
use sluicegate_testkit::servers::RedisServer;

use super::super::Refusal;
use super::*;

/// One process of a fleet, whose rules live in the store.
struct Process {
    sluice: Sluice,
    keeper: Keeper,
}

impl Process {
    /// Starts one with a file that has these rules.
    fn start(redis: &RedisServer, rules: &str) -> Self {
        let text = format!("store: redis://127.0.0.1:{}\nrules_from: store\n{rules}", redis.port());
        let settings = sluicegate_config::parse("rules.yaml", &text).unwrap().settings;
        let shared = sluicegate_config::shared_text(&text, &settings).unwrap();
        let sluice = sluicegate::enforce(settings.clone()).unwrap();
        let origin = Origin::Store("rules.yaml".into());
        let start = Start { sluice: sluice.clone(), origin, text: shared, settings, beside: Box::new(()) };
        Self { sluice, keeper: Keeper::new(start) }
    }

    /// Looks at the store until this holds.
    async fn until(&self, what: &str, holds: impl Fn(&Keeper) -> bool) {
        for _ in 0..2_000 {
            self.keeper.0.follow_fleet().await;
            if holds(&self.keeper) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("in vain: {what}: {:?}", self.keeper.status());
    }

    async fn has(&self, version: u64) {
        self.until(&format!("version {version}"), |keeper| keeper.status().version == version).await;
    }

    fn limits(&self) -> Vec<String> {
        self.sluice.rules().iter().flat_map(|rule| rule.limits.iter().map(ToString::to_string)).collect()
    }

    async fn end(self) {
        store_of(&self.sluice).unwrap().close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_changes_together() {
    let redis = RedisServer::start().unwrap();
    let first = Process::start(&redis, &total("1/1h"));
    first.has(1).await;
    // The second has another file: the store's rules go before.
    let second = Process::start(&redis, &total("7/1h"));
    second.has(1).await;
    assert_eq!(first.limits(), second.limits());
    second.keeper.put(edit(&total("2/1h"), Some(1))).await.unwrap();
    first.has(2).await;
    assert_eq!(first.limits(), second.limits());
    let versions = first.keeper.versions().await.unwrap();
    let told: Vec<_> = versions.iter().map(|it| (it.number, it.author.as_str(), it.is_current)).collect();
    assert_eq!(told, [(2, "alice", true), (1, "start", false)]);
    // Two who edit the same version: one of them is told.
    let refused = first.keeper.put(edit(&total("3/1h"), Some(1))).await;
    assert_eq!(refused, Err(Refusal::Overtaken { present: 2 }));
    // Back to the first version, everywhere.
    assert_eq!(first.keeper.restore(1, "bob", "").await.unwrap().version, 3);
    second.has(3).await;
    assert_eq!(second.keeper.source().text, total("1/1h"));
    // A process that starts later has what the others have.
    let third = Process::start(&redis, &total("9/1h"));
    third.has(3).await;
    assert_eq!(third.limits(), first.limits());
    for process in [first, second, third] {
        process.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_rules_reach_nobody() {
    let redis = RedisServer::start().unwrap();
    let process = Process::start(&redis, &total("1/1h"));
    process.has(1).await;
    for bad in ["rules: [{ name: total }]", "memory: 1MiB\nrules: []", ""] {
        let refused = process.keeper.put(edit(bad, None)).await;
        assert!(matches!(refused, Err(Refusal::Faulty(_))), "{bad}: {refused:?}");
    }
    assert_eq!(process.keeper.versions().await.unwrap().len(), 1);
    // What somebody else put there, and this process cannot read, is told of once.
    let book = store_of(&process.sluice).unwrap().rulebook();
    book.publish("rules: [{ name: total, newer: things }]", "eve", "", Some(1)).await.unwrap();
    process.until("it is told", |keeper| keeper.status().trouble.is_some()).await;
    let failed = process.keeper.status().failed_reloads;
    process.keeper.0.follow_fleet().await;
    assert_eq!((process.keeper.status().failed_reloads, process.keeper.status().version), (failed, 1));
    assert_eq!(process.sluice.rules().len(), 1);
    // And a good one after it is taken up.
    book.publish(&total("5/1h"), "ann", "", None).await.unwrap();
    process.has(3).await;
    assert_eq!(process.keeper.status().trouble, None);
    process.end().await;
}

/// Whoever remembers the rules gives them back to a store that has lost them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_is_reminded() {
    let redis = RedisServer::start().unwrap();
    let process = Process::start(&redis, &total("1/1h"));
    process.has(1).await;
    process.keeper.put(edit(&total("2/1h"), None)).await.unwrap();
    redis.command(&["FLUSHALL"]).unwrap();
    let book = store_of(&process.sluice).unwrap().rulebook();
    for _ in 0..2_000 {
        process.keeper.0.follow_fleet().await;
        if book.current_version().await == Ok(Some(2)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let kept = book.current().await.unwrap().unwrap();
    assert_eq!((kept.version.number, kept.version.author.as_str(), kept.text), (2, "alice", total("2/1h")));
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_the_rules_in_force_go_on() {
    let redis = RedisServer::start().unwrap();
    let process = Process::start(&redis, &total("1/1h"));
    process.has(1).await;
    drop(redis);
    process.until("it is told", |keeper| keeper.status().trouble.is_some()).await;
    assert_eq!((process.keeper.status().version, process.sluice.rules().len()), (1, 1));
    let refused = process.keeper.put(edit(&total("2/1h"), None)).await;
    assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    assert_eq!(process.keeper.status().version, 1);
    process.end().await;
}
