//! The texts that were in force in this process, as far as they are remembered.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::keeping::Signed;
use super::told::Version;

/// How many versions are remembered.
const MOST: usize = 50;

/// How many bytes all their texts together may have; the present one is remembered in any case.
const MOST_BYTES: usize = 64 << 20;

/// Versions, the newest last; there is at least one.
pub(super) struct History {
    versions: VecDeque<(Version, String)>,
    current: u64,
}

impl History {
    /// With the first version.
    pub(super) fn begin(number: u64, text: &str, signed: &Signed, at: SystemTime) -> Self {
        let mut history = Self { versions: VecDeque::new(), current: number };
        history.add(number, text, signed, at);
        history
    }

    /// The number of the version in force.
    pub(super) const fn current(&self) -> u64 {
        self.current
    }

    /// Notes a text that is in force from now on.
    pub(super) fn add(&mut self, number: u64, text: &str, signed: &Signed, at: SystemTime) {
        let Signed { author, comment } = signed.clone();
        let version = Version { number, at, author, comment, bytes: text.len() as u64, is_current: true };
        self.current = number;
        self.versions.retain(|(known, _)| known.number != number);
        self.versions.push_back((version, text.to_owned()));
        let bytes = |versions: &VecDeque<(Version, String)>| versions.iter().map(|(_, text)| text.len()).sum::<usize>();
        while self.versions.len() > 1 && (self.versions.len() > MOST || bytes(&self.versions) > MOST_BYTES) {
            self.versions.pop_front();
        }
    }

    /// All that are remembered, the newest first.
    pub(super) fn versions(&self) -> Vec<Version> {
        let told = |(version, _): &(Version, String)| Version {
            is_current: version.number == self.current,
            ..version.clone()
        };
        self.versions.iter().rev().map(told).collect()
    }

    /// One of them, with its text.
    pub(super) fn version(&self, number: u64) -> Option<(Version, String)> {
        let (version, text) = self.versions.iter().find(|(version, _)| version.number == number)?;
        Some((Version { is_current: number == self.current, ..version.clone() }, text.clone()))
    }
}
