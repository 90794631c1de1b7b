//! Tests of the rule manager with temporary files.

mod cluster;
mod editing;
mod reloading;
mod watching;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Request;

use super::{InitialRules, RuleManager, RulesEdit, RulesOrigin};

/// A rule file in a temporary directory; both are removed on drop.
struct ManagerFixture {
    folder: PathBuf,
    sluice: Sluice,
    clock: ManualClock,
    manager: RuleManager,
}

impl ManagerFixture {
    fn new(text: &str) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-reload-{}-{index}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rules.yaml");
        fs::write(&path, text).unwrap();
        let settings = sluicegate_config::load(&path).unwrap().settings;
        let clock = ManualClock::new();
        let (rules, lists) = (settings.rules.clone(), settings.lists.conditions());
        let sluice = Sluice::builder().rules(rules).lists(lists).clock(clock.clone()).build().unwrap();
        let (origin, text) = (RulesOrigin::File(path), text.to_owned());
        let manager =
            RuleManager::new(InitialRules { sluice: sluice.clone(), origin, text, settings, side_files: Box::new(()) });
        Self { folder, sluice, clock, manager }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("rules.yaml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn is_admitted(&self) -> bool {
        self.sluice.decide(&Request::new("GET", "/")).is_admitted()
    }

    /// Names of the rules in force.
    fn rules(&self) -> Vec<String> {
        self.sluice.rules().into_iter().map(|rule| rule.name).collect()
    }
}

impl Drop for ManagerFixture {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn total_rule(limit: &str) -> String {
    format!("rules: [{{ name: total, limits: [{limit}] }}]\n")
}

fn edit(text: &str, based_on: Option<u64>) -> RulesEdit {
    RulesEdit { text: text.to_owned(), based_on, author: "alice".to_owned(), comment: "more".to_owned() }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
