//! Saving what all rules remember, and taking it up again after a restart.

use std::sync::Arc;

use super::snapshot::{Snapshot, builder};
use super::Sluice;
use crate::clock::ClockHandle;
use crate::limiter::{Inner, SavedState};
use crate::rule::Rule;

/// The state of all rules, by name. Holds no keys, only their hashes and the seed these were made
/// with: keep it where others cannot read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRules {
    pub(super) seed: u64,
    pub(super) rules: Vec<SavedRule>,
}
