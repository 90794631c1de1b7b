//! Operations on one key of one rule, given by its values: peek, reset, ban.
//!
//! For operators who have an address or an account name, not a request. There is one value for each part of the
//! rule's key, in order, and it is normalized as for a request: an address is truncated to the part's prefix, a
//! host has no port.
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
use super::ban::{ActiveBan, KeyName};
use super::snapshot::Snapshot;
use crate::algorithm::{Check, Status};
use crate::limit::Limit;
use crate::rule::key::{hash_key, readable_key};
use crate::rule::key_values::{MAX_VALUES_BYTES, ValueError, with_values};
use crate::store::CanonicalKey;
use crate::table::{KeyHash, KeyHasher};

/// State of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Readable key.
    pub key: String,
    /// Remaining duration of its ban.
    pub banned: Option<Duration>,
    /// State of each of the rule's limits, in order.
    pub limits: Vec<LimitState>,
}

/// State of a limit for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The limit.
    pub limit: Limit,
    /// Quota available immediately.
    pub remaining: u64,
    /// Time until the full quota is available again, without further requests.
    pub reset: Duration,
    /// Time until one more request would be admitted, without other requests; `None`: immediately, or the clock
    /// alone does not decide.
    pub retry_after: Option<Duration>,
}

/// Error of an operation on a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no rule of this name.
    #[error("unknown rule")]
    NoRule,
    /// The number of values differs from the number of key parts.
    #[error("the rule's key has {expected} parts, but {given} values were given")]
    Parts {
        /// Number of key parts.
        expected: usize,
        /// Number of values given.
        given: usize,
    },
    /// No request can have this value.
    #[error("value {} of the key must be {expected}", part + 1)]
    Value {
        /// Index of the value, from zero.
        part: usize,
        /// Expected form of the value.
        expected: &'static str,
    },
    /// The rule has no ban.
    #[error("the rule has no ban")]
    NoBan,
    /// The rule is counted in the store.
    #[error("the rule is counted in the store, not in this process")]
    InStore,
    /// The values are too long.
    #[error("the values of the key exceed {max} bytes")]
    TooLong {
        /// Maximum total length in bytes.
        max: usize,
    },
}

impl From<ValueError> for KeyError {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Count { expected, given } => Self::Parts { expected, given },
            ValueError::Value { part, expected } => Self::Value { part, expected },
            ValueError::TooLong => Self::TooLong { max: MAX_VALUES_BYTES },
        }
    }
}

/// Key of a rule, resolved from its values.
struct ResolvedKey {
    snapshot: Arc<Snapshot>,
    rule: usize,
    hash: KeyHash,
    name: String,
    key: CanonicalKey,
}

impl Sluice {
    /// Returns the state of a key. Consumes nothing.
    pub fn peek(&self, rule: &str, key: &[&str]) -> Result<KeyState, KeyError> {
        let found = self.resolve_key(rule, key)?;
        let state = found.snapshot.state(found.rule);
        if state.cluster.is_some() {
            return Err(KeyError::InStore);
        }
        let now = self.shared.clock.now();
        let statuses = state.limiter.iter().flat_map(|limiter| {
            let (limit_set, words) = limiter.snapshot(found.hash, now);
            limit_set.peek_all(&words, now)
        });
        let limits = found.snapshot.rules()[found.rule].limits.iter().zip(statuses).map(|(limit, (status, check))| {
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

    /// Resets a key to its initial state. Permits and reservations stay held, and a ban stays: see
    /// [`Sluice::lift_ban`].
    pub fn reset(&self, rule: &str, key: &[&str]) -> Result<(), KeyError> {
        let found = self.resolve_key(rule, key)?;
        let state = found.snapshot.state(found.rule);
        if state.cluster.is_some() {
            return Err(KeyError::InStore);
        }
        if let Some(limiter) = &state.limiter {
            limiter.reset(found.hash);
        }
        Ok(())
    }

    /// Bans a key as if it had been refused often enough, for the rule's ban duration or shorter. An active ban
    /// that lasts longer stays. Bans of cluster-wide rules are [sent](Sluice::drain_ban_events) to the cluster.
    pub fn ban(&self, rule: &str, key: &[&str], lasting: Option<Duration>) -> Result<ActiveBan, KeyError> {
        let ResolvedKey { snapshot, rule, hash, name, key } = self.resolve_key(rule, key)?;
        let table = snapshot.state(rule).bans.as_ref().ok_or(KeyError::NoBan)?;
        let rule = &snapshot.rules()[rule].name;
        let key_name = KeyName { name: name.clone(), key };
        let remaining = table.impose(rule, key_name, hash, lasting, self.shared.clock.now());
        Ok(ActiveBan { rule: rule.clone(), key: name, remaining })
    }

    fn resolve_key(&self, rule: &str, values: &[&str]) -> Result<ResolvedKey, KeyError> {
        let snapshot = self.shared.snapshot.load_full();
        let rule = snapshot.position(rule).ok_or(KeyError::NoRule)?;
        let parts = &snapshot.rules()[rule].key;
        let seed = snapshot.seed();
        let resolved = with_values(parts, values, |request, params| {
            let mut hasher = KeyHasher::new(seed);
            let hashed = hash_key(parts, request, params, &mut hasher).then(|| hasher.key());
            Some((hashed?, readable_key(parts, request, params)?, CanonicalKey::of(parts, request, params)?))
        })?;
        let given = values.len();
        let (hash, name, key) = resolved.ok_or(KeyError::Parts { expected: parts.len(), given })?;
        Ok(ResolvedKey { snapshot, rule, hash, name, key })
    }
}
