//! Several processes with one real store.

use std::time::Duration;

use sluicegate::cluster::store_of;
use sluicegate_testkit::servers::RedisServer;

use super::super::EditError;
use super::*;

/// One process of a cluster with its rules in the store.
struct ClusterProcess {
    sluice: Sluice,
    manager: RuleManager,
}

impl ClusterProcess {
    /// Starts a process with these rules in its file.
    fn start(redis: &RedisServer, rules: &str) -> Self {
        let text = format!("store: redis://127.0.0.1:{}\nrules_from: store\n{rules}", redis.port());
        let settings = sluicegate_config::parse("rules.yaml", &text).unwrap().settings;
        let shared = sluicegate_config::shareable_text(&text, &settings).unwrap();
        let sluice = sluicegate::enforce(settings.clone()).unwrap();
        let origin = RulesOrigin::Store("rules.yaml".into());
        let start = InitialRules { sluice: sluice.clone(), origin, text: shared, settings, side_files: Box::new(()) };
        Self { sluice, manager: RuleManager::new(start) }
    }

    /// Polls the store until the condition holds.
    async fn sync_until(&self, what: &str, holds: impl Fn(&RuleManager) -> bool) {
        for _ in 0..2_000 {
            self.manager.0.sync_with_store().await;
            if holds(&self.manager) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("timeout: {what}: {:?}", self.manager.status());
    }

    async fn wait_for_version(&self, version: u64) {
        self.sync_until(&format!("version {version}"), |manager| manager.status().version == version).await;
    }

    fn limits(&self) -> Vec<String> {
        self.sluice.rules().iter().flat_map(|rule| rule.limits.iter().map(ToString::to_string)).collect()
    }

    async fn close(self) {
        store_of(&self.sluice).unwrap().close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_processes_apply_the_same_version() {
    let redis = RedisServer::start().unwrap();
    let first = ClusterProcess::start(&redis, &total_rule("1/1h"));
    first.wait_for_version(1).await;
    // The second has another file: the store takes precedence.
    let second = ClusterProcess::start(&redis, &total_rule("7/1h"));
    second.wait_for_version(1).await;
    assert_eq!(first.limits(), second.limits());
    second.manager.put(edit(&total_rule("2/1h"), Some(1))).await.unwrap();
    first.wait_for_version(2).await;
    assert_eq!(first.limits(), second.limits());
    let versions = first.manager.versions().await.unwrap();
    let listed: Vec<_> = versions.iter().map(|it| (it.number, it.author.as_str(), it.is_current)).collect();
    assert_eq!(listed, [(2, "alice", true), (1, "start", false)]);
    // Two edits of the same version: one is rejected.
    let refused = first.manager.put(edit(&total_rule("3/1h"), Some(1))).await;
    assert_eq!(refused, Err(EditError::StaleVersion { present: 2 }));
    // Restores the first version on all processes.
    assert_eq!(first.manager.restore(1, "bob", "").await.unwrap().version, 3);
    second.wait_for_version(3).await;
    assert_eq!(second.manager.source().text, total_rule("1/1h"));
    // A process that starts later gets the same rules.
    let third = ClusterProcess::start(&redis, &total_rule("9/1h"));
    third.wait_for_version(3).await;
    assert_eq!(third.limits(), first.limits());
    for process in [first, second, third] {
        process.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_rules_are_not_published() {
    let redis = RedisServer::start().unwrap();
    let process = ClusterProcess::start(&redis, &total_rule("1/1h"));
    process.wait_for_version(1).await;
    for bad in ["rules: [{ name: total }]", "memory: 1MiB\nrules: []", ""] {
        let refused = process.manager.put(edit(bad, None)).await;
        assert!(matches!(refused, Err(EditError::Invalid(_))), "{bad}: {refused:?}");
    }
    assert_eq!(process.manager.versions().await.unwrap().len(), 1);
    // A version that this process cannot parse is reported once.
    let repository = store_of(&process.sluice).unwrap().rule_repository();
    repository.publish("rules: [{ name: total, newer: things }]", "eve", "", Some(1)).await.unwrap();
    process.sync_until("an error is recorded", |manager| manager.status().last_error.is_some()).await;
    let failed = process.manager.status().failed_reloads;
    process.manager.0.sync_with_store().await;
    assert_eq!((process.manager.status().failed_reloads, process.manager.status().version), (failed, 1));
    assert_eq!(process.sluice.rules().len(), 1);
    // A valid version after it is applied.
    repository.publish(&total_rule("5/1h"), "ann", "", None).await.unwrap();
    process.wait_for_version(3).await;
    assert_eq!(process.manager.status().last_error, None);
    process.close().await;
}

/// A process that still has the rules restores them to a store that has lost them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_restored_to_a_flushed_store() {
    let redis = RedisServer::start().unwrap();
    let process = ClusterProcess::start(&redis, &total_rule("1/1h"));
    process.wait_for_version(1).await;
    process.manager.put(edit(&total_rule("2/1h"), None)).await.unwrap();
    redis.command(&["FLUSHALL"]).unwrap();
    let repository = store_of(&process.sluice).unwrap().rule_repository();
    for _ in 0..2_000 {
        process.manager.0.sync_with_store().await;
        if repository.current_version().await == Ok(Some(2)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stored = repository.current().await.unwrap().unwrap();
    assert_eq!((stored.version.number, stored.version.author.as_str(), stored.text), (2, "alice", total_rule("2/1h")));
    process.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_stay_in_force_without_the_store() {
    let redis = RedisServer::start().unwrap();
    let process = ClusterProcess::start(&redis, &total_rule("1/1h"));
    process.wait_for_version(1).await;
    drop(redis);
    process.sync_until("an error is recorded", |manager| manager.status().last_error.is_some()).await;
    assert_eq!((process.manager.status().version, process.sluice.rules().len()), (1, 1));
    let refused = process.manager.put(edit(&total_rule("2/1h"), None)).await;
    assert!(matches!(refused, Err(EditError::Unavailable(_))), "{refused:?}");
    assert_eq!(process.manager.status().version, 1);
    process.close().await;
}
