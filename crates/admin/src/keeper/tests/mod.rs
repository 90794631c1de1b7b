//! Tests of the keeper, with files of their own.

mod editing;
mod fleet;
mod following;
mod reloading;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Request;

use super::{Edit, Keeper, Origin, Start};

/// A rule file in a folder of its own; both are gone with it.
struct Kept {
    folder: PathBuf,
    sluice: Sluice,
    clock: ManualClock,
    keeper: Keeper,
}

impl Kept {
    fn new(text: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-keeper-{}-{nth}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rules.yaml");
        fs::write(&path, text).unwrap();
        let settings = sluicegate_config::load(&path).unwrap().settings;
        let clock = ManualClock::new();
        let (rules, lists) = (settings.rules.clone(), settings.lists.conditions());
        let sluice = Sluice::builder().rules(rules).lists(lists).clock(clock.clone()).build().unwrap();
        let (origin, text) = (Origin::File(path), text.to_owned());
        let keeper = Keeper::new(Start { sluice: sluice.clone(), origin, text, settings, beside: Box::new(()) });
        Self { folder, sluice, clock, keeper }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("rules.yaml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn passes(&self) -> bool {
        self.sluice.decide(&Request::new("GET", "/")).is_admitted()
    }

    /// The names of the rules in force.
    fn rules(&self) -> Vec<String> {
        self.sluice.rules().into_iter().map(|rule| rule.name).collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn total(limit: &str) -> String {
    format!("rules: [{{ name: total, limits: [{limit}] }}]\n")
}

fn edit(text: &str, based_on: Option<u64>) -> Edit {
    Edit { text: text.to_owned(), based_on, author: "alice".to_owned(), comment: "more".to_owned() }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
