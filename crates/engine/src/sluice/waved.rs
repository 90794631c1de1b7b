//! Requests that are waved through, or waved off.
//!
//! Nearly every request meets one rule at most, and holds nothing afterwards: it finds tokens in its bucket, or is one
//! of a flood that finds none. An [`Outcome`](super::Outcome) is more than such a request needs: it keeps the rules
//! alive, remembers what was taken so that it can be given back, and has room for several rules, bans and stores.
//! Building, moving and dropping it takes longer than the decision itself.
//!
//! Here the same is decided without one: the same lists, the same matching, the same key, the same bucket. Whatever
//! is not as simple as that is left to the full decision, and nothing has been taken or counted by then.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;

use super::decide::{Deciding, each_check, name_of};
use super::outcome::{Cause, RuleDecision};
use super::snapshot::Snapshot;
use crate::clock::ClockHandle;
use crate::decision::Verdict;
use crate::rule::{Request, Rule};
use crate::table::KeyHash;

/// The rules in force, held for a moment to wave a request through or off. See [`Sluice::waving`].
///
/// [`Sluice::waving`]: super::Sluice::waving
pub struct Waving<'a> {
    snapshot: Guard<Arc<Snapshot>>,
    clock: &'a ClockHandle,
}

impl<'a> Waving<'a> {
    pub(super) const fn new(snapshot: Guard<Arc<Snapshot>>, clock: &'a ClockHandle) -> Self {
        Self { snapshot, clock }
    }

    /// Tells whose request comes, before all of it is known: what is known of the client is then fetched from memory
    /// meanwhile. In a large table that takes longer than anything else.
    #[inline]
    pub fn expect_client(&self, client: IpAddr) {
        self.snapshot.expect_client(client);
    }

    /// Decides about the request if it is as simple as that. `None`: it is not, and nothing was taken or counted.
    #[inline]
    pub fn wave(&self, request: &Request<'_>) -> Option<Waved<'_>> {
        wave(&self.snapshot, request, self.clock)
    }
}

impl std::fmt::Debug for Waving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waving").finish_non_exhaustive()
    }
}

/// A request that was let in or refused at once, with nothing to give back. See [`Waving::wave`].
pub struct Waved<'a> {
    snapshot: &'a Snapshot,
    decision: Option<RuleDecision>,
}

impl Waved<'_> {
    /// The rules it was decided by.
    pub fn rules(&self) -> &[Rule] {
        self.snapshot.rules()
    }

    /// What an adapter keeps prepared for these rules, as [`Outcome::prepared`](super::Outcome::prepared).
    #[inline]
    pub fn prepared<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.snapshot.prepared(prepare)
    }

    /// Whether the request may go on. If not, the one rule that was met has refused it.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.verdict().is_admitted()
    }

    /// How the request fares.
    #[inline]
    pub fn verdict(&self) -> Verdict {
        self.decision.map_or(Verdict::Allowed, |said| said.decision.verdict)
    }

    /// What that hangs on.
    #[inline]
    pub fn cause(&self) -> Cause {
        match self.decision {
            Some(said) if !said.decision.is_admitted() => Cause::Limit(said.rule),
            _ => Cause::Rules,
        }
    }

    /// What the rule that was met said; `None` if there was none.
    pub const fn decision(&self) -> Option<RuleDecision> {
        self.decision
    }
}

impl std::fmt::Debug for Waved<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waved").field("decision", &self.decision).finish_non_exhaustive()
    }
}

/// The rules a request meets, as far as it matters here.
enum Met {
    Nobody,
    One {
        rule: usize,
        key: KeyHash,
        cost: u64,
    },
    /// Several, or one that takes more than a look into a bucket.
    More,
}

/// Lets a request in or refuses it, if that is all there is to it.
#[inline]
fn wave<'a>(snapshot: &'a Snapshot, request: &Request<'_>, clock: &ClockHandle) -> Option<Waved<'a>> {
    if snapshot.lists().check(request).is_some() {
        return None;
    }
    let mut met = Met::Nobody;
    each_check(
        snapshot,
        Deciding::Matching,
        request,
        |_, _| {},
        |rule, key, cost| {
            met = match met {
                Met::Nobody if snapshot.state(rule).is_plain() => Met::One { rule, key, cost },
                _ => Met::More,
            };
        },
    );
    let decision = match met {
        Met::Nobody => None,
        Met::One { rule, key, cost } => {
            let state = snapshot.state(rule);
            // Nobody passes those who wait.
            if state.limiter.as_ref()?.room.is_occupied() {
                return None;
            }
            let now = clock.now();
            let decision = state.core.as_ref()?.decide_plain(key, now, cost)?;
            let is_admitted = decision.is_admitted();
            let counter = match is_admitted {
                true => &state.counters.admitted,
                // A refusal takes nothing, so there is nothing to undo.
                false if snapshot.rules()[rule].on_limit.queue.is_some() => return None,
                false => &state.counters.refused,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(watch) = &state.watch {
                watch.note(key, !is_admitted, now, || name_of(snapshot, Deciding::Matching, rule, request));
            }
            Some(RuleDecision { rule, decision, shadow: false, degraded: false })
        }
        Met::More => return None,
    };
    Some(Waved { snapshot, decision })
}
