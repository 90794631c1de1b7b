//! Bounded history of rule texts that were in force in this process.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::apply::ChangeInfo;
use super::types::RulesVersion;

/// Maximum number of versions.
const MAX_VERSIONS: usize = 50;

/// Maximum size of all texts together, in bytes; the current one is always stored.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Versions, newest last; there is at least one.
pub(super) struct VersionHistory {
    versions: VecDeque<(RulesVersion, String)>,
    current: u64,
}

impl VersionHistory {
    /// Creates the history with its first version.
    pub(super) fn new(number: u64, text: &str, change: &ChangeInfo, at: SystemTime) -> Self {
        let mut history = Self { versions: VecDeque::new(), current: number };
        history.add(number, text, change, at);
        history
    }

    /// Number of the version in force.
    pub(super) const fn current(&self) -> u64 {
        self.current
    }

    /// Records a text that is in force from now on.
    pub(super) fn add(&mut self, number: u64, text: &str, change: &ChangeInfo, at: SystemTime) {
        let ChangeInfo { author, comment } = change.clone();
        let version = RulesVersion { number, at, author, comment, bytes: text.len() as u64, is_current: true };
        self.current = number;
        self.versions.retain(|(known, _)| known.number != number);
        self.versions.push_back((version, text.to_owned()));
        let bytes =
            |versions: &VecDeque<(RulesVersion, String)>| versions.iter().map(|(_, text)| text.len()).sum::<usize>();
        while self.versions.len() > 1 && (self.versions.len() > MAX_VERSIONS || bytes(&self.versions) > MAX_TOTAL_BYTES)
        {
            self.versions.pop_front();
        }
    }

    /// All stored versions, newest first.
    pub(super) fn versions(&self) -> Vec<RulesVersion> {
        let with_current = |(version, _): &(RulesVersion, String)| RulesVersion {
            is_current: version.number == self.current,
            ..version.clone()
        };
        self.versions.iter().rev().map(with_current).collect()
    }

    /// One version with its text.
    pub(super) fn version(&self, number: u64) -> Option<(RulesVersion, String)> {
        let (version, text) = self.versions.iter().find(|(version, _)| version.number == number)?;
        Some((RulesVersion { is_current: number == self.current, ..version.clone() }, text.clone()))
    }
}
