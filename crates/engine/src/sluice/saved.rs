//! Saves the state of all rules and restores it after a restart.

use std::sync::Arc;

use super::Sluice;
use super::snapshot::{Snapshot, builder};
use crate::clock::ClockHandle;
use crate::limiter::{RestoreError, SavedState, checksum};

/// Saved state of all rules, by name: limits and bans. Contains no keys, only their hashes and the hash seed;
/// keep it private.
///
/// ```
/// use sluicegate_engine::{Sluice, rule::{Request, Rule}, sluice::SavedRules};
///
/// let rules = || ["1/1h".parse()].into_iter().collect::<Result<Vec<_>, _>>().map(|limits| Rule::new("all", limits));
/// let before = Sluice::builder().rule(rules()?).build()?;
/// let _ = before.decide(&Request::new("GET", "/"));
/// let bytes = before.save().to_bytes();
///
/// let saved = SavedRules::from_bytes(&bytes)?;
/// let after = Sluice::builder().rule(rules()?).restore(saved).build()?;
/// assert!(!after.decide(&Request::new("GET", "/")).is_admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRules {
    pub(super) seed: u64,
    rules: Vec<SavedRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SavedRule {
    name: String,
    limits: Option<SavedState>,
    bans: Option<SavedState>,
}

/// Magic bytes of saved rules: name and version.
const MAGIC: &[u8; 8] = b"slrules\x02";

impl SavedRules {
    /// Serializes the state.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        let mut part = |part: &[u8]| {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        };
        for rule in &self.rules {
            part(rule.name.as_bytes());
            for state in [&rule.limits, &rule.bans] {
                part(state.as_ref().map_or(&[], SavedState::as_bytes));
            }
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses saved rules and verifies their checksum.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RestoreError> {
        if !bytes.starts_with(MAGIC) {
            return Err(RestoreError::Unknown);
        }
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(RestoreError::Damaged)?;
        if u64::from_le_bytes(*sum) != checksum(body) {
            return Err(RestoreError::Damaged);
        }
        let rest = body.strip_prefix(MAGIC).ok_or(RestoreError::Damaged)?;
        let (seed, mut rest) = rest.split_first_chunk::<8>().ok_or(RestoreError::Damaged)?;
        let mut part = || -> Result<&[u8], RestoreError> {
            let (len, tail) = rest.split_first_chunk::<8>().ok_or(RestoreError::Damaged)?;
            let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| RestoreError::Damaged)?;
            let (part, tail) = tail.split_at_checked(len).ok_or(RestoreError::Damaged)?;
            rest = tail;
            Ok(part)
        };
        let state = |bytes: &[u8]| match bytes {
            [] => Ok(None),
            bytes => SavedState::from_bytes(bytes.to_vec()).map(Some),
        };
        let mut rules = Vec::new();
        while let Ok(name) = part() {
            let name = String::from_utf8(name.to_vec()).map_err(|_| RestoreError::Damaged)?;
            let (limits, bans) = (state(part()?)?, state(part()?)?);
            rules.push(SavedRule { name, limits, bans });
        }
        if !rest.is_empty() {
            return Err(RestoreError::Damaged);
        }
        Ok(Self { seed: u64::from_le_bytes(*seed), rules })
    }
}

impl Sluice {
    /// Saves the state of all rules, for [`SluiceBuilder::restore`](super::SluiceBuilder::restore).
    pub fn save(&self) -> SavedRules {
        let snapshot = self.shared.snapshot.load();
        let rules = snapshot.rules().iter().enumerate().map(|(index, rule)| {
            let state = snapshot.state(index);
            SavedRule {
                name: rule.name.clone(),
                limits: state.limiter.as_ref().map(|limiter| limiter.save()),
                bans: state.bans.as_ref().map(|bans| bans.save()),
            }
        });
        SavedRules { seed: snapshot.seed(), rules: rules.collect() }
    }
}

impl Snapshot {
    /// Restores saved state, rule by rule. Returns the names of rules with saved state that no longer fits them;
    /// these start fresh.
    pub(super) fn restore(&mut self, saved: &SavedRules, clock: &ClockHandle) -> Vec<String> {
        let mut unrestored = Vec::new();
        for (rule, state) in self.states_mut() {
            let Some(saved) = saved.rules.iter().find(|saved| saved.name == rule.name) else { continue };
            let mut fits = true;
            if let (Some(limiter), Some(limits)) = (&mut state.limiter, &saved.limits) {
                fits &= restore_state(limiter, |limiter| builder(rule, clock).restore_core(limits, limiter.buckets()));
            }
            *state = state.clone().link_limiter(rule, None);
            if let (Some(bans), Some(saved_bans)) = (&mut state.bans, &saved.bans) {
                fits &= restore_state(bans, |bans| bans.restored(saved_bans, clock));
            }
            if !fits {
                unrestored.push(rule.name.clone());
            }
        }
        unrestored
    }
}

/// Replaces a state by its restored form. Returns false if that fails.
fn restore_state<T>(state: &mut Arc<T>, restore: impl FnOnce(&T) -> Result<Arc<T>, RestoreError>) -> bool {
    match restore(state) {
        Ok(restored) => {
            *state = restored;
            true
        }
        Err(_) => false,
    }
}
