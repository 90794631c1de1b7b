//! One key of one rule, named by its values: looking at it, forgetting it, banning it.
//!
//! For whoever operates a sluice and has an address or an account in hand, not a request. A value is given
//! for each part of the rule's key, in its order, and is read as a request's would be: an address is cut to
//! the part's prefix, a host stands without its port.
//!
//! ```
//! use sluicegate_engine::{Sluice, rule::{Attribute, Request, Rule}};
//! use std::net::Ipv4Addr;
//!
//! let mut per_ip = Rule::new("per-ip", ["2/1m".parse()?]);
//! per_ip.key = vec![Attribute::ClientIp.into()];
//! let sluice = Sluice::builder().rule(per_ip).build()?;
//! let _ = sluice.decide(&Request::new("GET", "/").with_client_ip(Ipv4Addr::LOCALHOST));
//!
//! assert_eq!(sluice.peek("per-ip", &["127.0.0.1"])?.limits[0].remaining, 1);
//! sluice.reset("per-ip", &["127.0.0.1"])?;
//! assert_eq!(sluice.peek("per-ip", &["127.0.0.1"])?.limits[0].remaining, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Sluice;
use super::ban::{Banned, NamedKey};
use super::snapshot::Snapshot;
use crate::algorithm::{Check, Status};
use crate::fleet::FleetKey;
use crate::limit::Limit;
use crate::rule::key::{hash_key, readable_key};
use crate::rule::values::{LONGEST_VALUES, ValueError, with_values};
use crate::table::{KeyHash, KeyHasher};

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key, readable.
    pub key: String,
    /// How much longer it is banned.
    pub banned: Option<Duration>,
    /// What is left of each of the rule's limits, in their order.
    pub limits: Vec<LimitState>,
}

/// What is left of a limit for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The limit.
    pub limit: Limit,
    /// What could be had at once.
    pub remaining: u64,
    /// Time until everything is available again if nobody comes.
    pub reset: Duration,
    /// After which time one more would be admitted if nobody else came; `None`: at once, or no clock can tell.
    pub retry_after: Option<Duration>,
}

/// Why nothing can be said or done about a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no rule of this name.
    #[error("there is no such rule")]
    NoRule,
    /// The rule's key has another number of parts.
    #[error("the rule's key has {expected} parts, and {given} values were given: give one for each")]
    Parts {
        /// How many parts the key has.
        expected: usize,
        /// How many values were given.
        given: usize,
    },
    /// No request can have this value.
    #[error("value {} of the key must be {expected}", part + 1)]
    Value {
        /// Which value, counted from zero.
        part: usize,
        /// What it should be.
        expected: &'static str,
    },
    /// The rule bans nobody.
    #[error("the rule has no ban")]
    NoBan,
    /// The rule is counted in the store.
    #[error("the rule is counted in the store, not in this process")]
    Elsewhere,
    /// The values are too long.
    #[error("the key's values have more than {most} bytes")]
    TooLong {
        /// How many bytes they may have together.
        most: usize,
    },
}

impl From<ValueError> for KeyError {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Count { expected, given } => Self::Parts { expected, given },
            ValueError::Value { part, expected } => Self::Value { part, expected },
            ValueError::TooLong => Self::TooLong { most: LONGEST_VALUES },
        }
    }
}

/// A key of a rule that was found by its values.
struct Found {
    snapshot: Arc<Snapshot>,
    rule: usize,
    hash: KeyHash,
    name: String,
    key: FleetKey,
}

impl Sluice {
    /// What is left for a key. Takes nothing.
    pub fn peek(&self, rule: &str, key: &[&str]) -> Result<KeyState, KeyError> {
        let found = self.found(rule, key)?;
        let state = found.snapshot.state(found.rule);
        if state.fleet.is_some() {
            return Err(KeyError::Elsewhere);
        }
        let now = self.shared.clock.now();
        let looks = state.limiter.iter().flat_map(|limiter| {
            let (plan, words) = limiter.snapshot(found.hash, now);
            plan.looks(&words, now)
        });
        let limits = found.snapshot.rules()[found.rule].limits.iter().zip(looks).map(|(limit, (status, check))| {
            let retry_after = match check {
                Check::NotBefore(wait) => Some(Duration::from_nanos(wait)),
                Check::Now | Check::After(_) | Check::Held | Check::Never => None,
            };
            let Status { remaining, reset, .. } = status;
            LimitState { limit: *limit, remaining, reset: Duration::from_nanos(reset), retry_after }
        });
        let limits = limits.collect();
        let banned = state.bans.as_ref().and_then(|bans| bans.remaining(found.hash, now));
        Ok(KeyState { key: found.name, banned, limits })
    }

    /// Forgets a key, as if it had never been seen. What is held of it stays held, and its ban stays:
    /// [`Sluice::lift_ban`] lifts that.
    pub fn reset(&self, rule: &str, key: &[&str]) -> Result<(), KeyError> {
        let found = self.found(rule, key)?;
        let state = found.snapshot.state(found.rule);
        if state.fleet.is_some() {
            return Err(KeyError::Elsewhere);
        }
        if let Some(limiter) = &state.limiter {
            limiter.forget(found.hash);
        }
        Ok(())
    }

    /// Bans a key as if it had been refused often enough, for as long as the rule says or for a shorter time. A
    /// ban in force that lasts longer stays. Bans of cluster-wide rules are [told](Sluice::ban_news) to the fleet.
    pub fn ban(&self, rule: &str, key: &[&str], lasting: Option<Duration>) -> Result<Banned, KeyError> {
        let Found { snapshot, rule, hash, name, key } = self.found(rule, key)?;
        let book = snapshot.state(rule).bans.as_ref().ok_or(KeyError::NoBan)?;
        let rule = &snapshot.rules()[rule].name;
        let named = NamedKey { name: name.clone(), key };
        let remaining = book.pronounce(rule, named, hash, lasting, self.shared.clock.now());
        Ok(Banned { rule: rule.clone(), key: name, remaining })
    }

    fn found(&self, rule: &str, values: &[&str]) -> Result<Found, KeyError> {
        let snapshot = self.shared.snapshot.load_full();
        let rule = snapshot.position(rule).ok_or(KeyError::NoRule)?;
        let parts = &snapshot.rules()[rule].key;
        let seed = snapshot.seed();
        let made = with_values(parts, values, |request, params| {
            let mut hasher = KeyHasher::new(seed);
            let hashed = hash_key(parts, request, params, &mut hasher).then(|| hasher.key());
            Some((hashed?, readable_key(parts, request, params)?, FleetKey::of(parts, request, params)?))
        })?;
        let given = values.len();
        let (hash, name, key) = made.ok_or(KeyError::Parts { expected: parts.len(), given })?;
        Ok(Found { snapshot, rule, hash, name, key })
    }
}
