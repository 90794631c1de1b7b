//! Saving what all rules remember, and taking it up again after a restart.

use std::sync::Arc;

use super::Sluice;
use super::snapshot::{Snapshot, builder};
use crate::clock::ClockHandle;
use crate::limiter::{RestoreError, SavedState, checksum};

/// The state of all rules, by name: limits and bans. Holds no keys, only their hashes and the seed
/// these were made with: keep it where others cannot read it.
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

/// Bytes every saved set of rules starts with: a name and a version.
const MAGIC: &[u8; 8] = b"slrules\x02";

impl SavedRules {
    /// The bytes to keep.
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

    /// Checks that bytes are saved rules, whole and unchanged.
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
    /// What all rules remember, to be taken up by [`SluiceBuilder::restore`](super::SluiceBuilder::restore).
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
    /// Takes up saved state, rule by rule. Answers the names of rules whose saved state does not fit
    /// them any more; these start fresh.
    pub(super) fn restore(&mut self, saved: &SavedRules, clock: &ClockHandle) -> Vec<String> {
        let mut fresh = Vec::new();
        for (rule, state) in self.states_mut() {
            let Some(saved) = saved.rules.iter().find(|saved| saved.name == rule.name) else { continue };
            let mut fits = true;
            if let (Some(limiter), Some(limits)) = (&mut state.limiter, &saved.limits) {
                fits &= take_up(limiter, |limiter| builder(rule, clock).restore_inner(limits, limiter.buckets()));
            }
            *state = state.clone().ready(rule, None);
            if let (Some(bans), Some(book)) = (&mut state.bans, &saved.bans) {
                fits &= take_up(bans, |bans| bans.restored(book, clock));
            }
            if !fits {
                fresh.push(rule.name.clone());
            }
        }
        fresh
    }
}

/// Replaces a state by its restored form, if that works.
fn take_up<T>(state: &mut Arc<T>, restore: impl FnOnce(&T) -> Result<Arc<T>, RestoreError>) -> bool {
    match restore(state) {
        Ok(restored) => {
            *state = restored;
            true
        }
        Err(_) => false,
    }
}
