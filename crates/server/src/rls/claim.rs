//! What one descriptor asks for, and what it was given.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::ratelimit::{DescriptorLimit, Kind, Match, Unit};
use sluicegate_engine::adhoc::{AdHoc, AdHocError, Deed, Throttled, Throttling};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use tokio::runtime::Handle;

use super::bad_request::BadRequest;
use super::descriptor::{Counted, Entries, counter};
use super::proto::{RateLimit, RateLimitDescriptor, RateLimitOverride};

/// One descriptor's part in a request.
pub(super) struct Claim {
    /// What is known of the limit before anybody is asked.
    pub(super) terms: Option<Terms>,
    pub(super) state: State,
}

/// A limit that the reference's files or the descriptor itself name.
pub(super) struct Terms {
    /// As the proxy is told of it.
    pub(super) limit: RateLimit,
    /// The rule that counts it, if a rule does.
    pub(super) rule: Option<String>,
    /// Whether being over it leaves the rest of the request alone.
    pub(super) quota: bool,
    /// What its file says about it for later filters.
    pub(super) metadata: Option<serde_json::Value>,
}

/// How far a claim is.
pub(super) enum State {
    /// No limit applies.
    Free,
    /// A limit applies that lets everything through.
    Unlimited,
    /// A limit applies that lets nothing through.
    Blocked,
    /// The rules are asked, and perhaps have answered.
    Asked(Admission),
    /// The rules are looked at, and these hits given back to them then.
    GivesBack(Admission, u64),
    /// The rules have answered after a while.
    Decided(Outcome),
    /// A limit that came with the descriptor has answered.
    Window(Throttled, Option<WindowHits>),
    /// The store is asked about a limit that came with the descriptor.
    AsksWindow(Throttling, WindowHits),
    /// Hits are to be given back once everything else is admitted.
    Returns,
}

impl State {
    /// Of what was said of a window: what was taken can go back.
    fn of_window(said: Throttled, spent: WindowHits) -> Self {
        let taken = !said.limited && matches!(spent.deed, Deed::Take(_));
        Self::Window(said, taken.then_some(spent))
    }
}

/// What is done about a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Hits are spent; none: the limit is only looked at.
    Spend(u64),
    /// Hits that were spent earlier are given back.
    GiveBack(u64),
}

impl Purpose {
    /// The hits that are spent.
    const fn spent(self) -> u64 {
        match self {
            Self::Spend(hits) => hits,
            Self::GiveBack(_) => 0,
        }
    }

    /// The state of a claim that was asked for it.
    const fn asked(self, admission: Admission) -> State {
        match self {
            Self::Spend(_) => State::Asked(admission),
            Self::GiveBack(hits) => State::GivesBack(admission, hits),
        }
    }
}

/// Who is asked.
pub(super) struct Asked<'a> {
    pub(super) sluice: &'a Sluice,
    pub(super) windows: &'a Arc<AdHoc>,
    pub(super) domain: &'a str,
}

impl Claim {
    pub(super) const FREE: Self = Self { terms: None, state: State::Free };

    /// Hits that will be given back.
    pub(super) const RETURNS: Self = Self { terms: None, state: State::Returns };

    /// By a limit of the reference's files.
    pub(super) fn configured(asked: &Asked<'_>, found: Match<'_>, purpose: Purpose) -> Self {
        let Match { limit, key } = found;
        let state = match limit.kind {
            Kind::Unlimited => State::Unlimited,
            Kind::Blocked => State::Blocked,
            Kind::Counted => {
                let counted = Counted(key);
                let request = counted.request(asked.domain);
                let admission = asked.sluice.ask_named(&limit.rule_name, &request.with_cost(purpose.spent()));
                // Without its rule, which a reload has just taken away, there is no limit either.
                let Some(admission) = admission else { return Self::FREE };
                purpose.asked(admission)
            }
        };
        Self { terms: Some(Terms::configured(limit)), state }
    }

    /// By the rules of the rule file.
    pub(super) fn by_rules(asked: &Asked<'_>, descriptor: &RateLimitDescriptor, purpose: Purpose) -> Self {
        let entries = Entries(&descriptor.entries);
        let request = entries.request(asked.domain);
        let admission = asked.sluice.ask(&request.with_cost(purpose.spent()));
        Self { terms: None, state: purpose.asked(admission) }
    }

    /// By the limit that the descriptor brings along.
    pub(super) fn overridden(
        asked: &Asked<'_>,
        nth: usize,
        descriptor: &RateLimitDescriptor,
        limit: &RateLimitOverride,
        purpose: Purpose,
    ) -> Result<Self, BadRequest> {
        let window = window(nth, limit)?;
        let requests = u64::from(limit.requests_per_unit);
        let key = counter(asked.domain, &descriptor.entries);
        let deed = match purpose {
            Purpose::Spend(hits) => Deed::Take(hits),
            Purpose::GiveBack(hits) => Deed::GiveBack(hits),
        };
        let bad = |why: AdHocError| BadRequest::Override { nth, why: why.to_string() };
        let spent = WindowHits { windows: Arc::clone(asked.windows), key, requests, window, deed };
        let state = if asked.windows.is_shared() {
            let throttling = asked.windows.ask_window(&spent.key, requests, window, deed).map_err(bad)?;
            State::AsksWindow(throttling, spent)
        } else {
            let said = match deed {
                Deed::Take(hits) => asked.windows.window(&spent.key, requests, window, hits),
                Deed::GiveBack(hits) => asked.windows.give_back_to_window(&spent.key, requests, window, hits),
            };
            State::of_window(said.map_err(bad)?, spent)
        };
        let limit = RateLimit {
            name: String::new(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
            unit_multiplier: limit.unit_multiplier,
        };
        let terms = Terms { limit, rule: None, quota: false, metadata: None };
        Ok(Self { terms: Some(terms), state })
    }

    /// What the rules said, once they have.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Asked(admission) => admission.decided(),
            State::Decided(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_settled(&self) -> bool {
        match &self.state {
            State::Asked(admission) => admission.decided().is_some(),
            State::Returns | State::GivesBack(..) | State::AsksWindow(..) => false,
            _ => true,
        }
    }

    /// Waits for the store, if a rule is counted there.
    pub(super) async fn settle(&mut self) {
        if self.is_settled() {
            return;
        }
        if let State::AsksWindow(throttling, _) = &mut self.state {
            let said = throttling.await;
            // Numbers that cannot be kept were refused before.
            self.state = match (said, std::mem::replace(&mut self.state, State::Free)) {
                (Ok(said), State::AsksWindow(_, spent)) => State::of_window(said, spent),
                _ => State::Free,
            };
            return;
        }
        self.state = match &mut self.state {
            State::Asked(admission) => State::Decided(admission.await),
            State::GivesBack(admission, hits) => {
                let hits = *hits;
                let mut outcome = admission.await;
                outcome.refund(hits);
                State::Decided(outcome)
            }
            _ => return,
        };
    }

    /// Undoes it: what was taken goes back.
    pub(super) fn give_back(&mut self) {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Asked(mut admission) => {
                if let Some(outcome) = admission.take() {
                    outcome.give_back();
                }
            }
            State::Decided(outcome) => outcome.give_back(),
            State::Window(_, Some(hits)) => hits.give_back(),
            State::Window(_, None)
            | State::Free
            | State::Unlimited
            | State::Blocked
            | State::Returns
            | State::AsksWindow(..)
            | State::GivesBack(..) => {}
        }
    }
}

/// The time that a limit of the descriptor's own speaks of.
pub(super) fn window(nth: usize, limit: &RateLimitOverride) -> Result<Duration, BadRequest> {
    let unit = Unit::from_number(limit.unit).ok_or(BadRequest::UnknownUnit { nth, unit: limit.unit })?;
    match limit.unit_multiplier.unwrap_or(1) {
        0 => Err(BadRequest::NoUnits { nth }),
        times => Ok(unit.duration().saturating_mul(times)),
    }
}

impl Terms {
    fn configured(limit: &DescriptorLimit) -> Self {
        let told = RateLimit {
            name: limit.name.clone().unwrap_or_default(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, Unit::number),
            unit_multiplier: None,
        };
        let rule = matches!(limit.kind, Kind::Counted).then(|| limit.rule_name.clone());
        Self { limit: told, rule, quota: limit.quota, metadata: limit.metadata.clone() }
    }
}

/// Hits that were spent on a limit of the descriptor's own.
pub(super) struct WindowHits {
    windows: Arc<AdHoc>,
    key: Vec<u8>,
    requests: u64,
    window: Duration,
    deed: Deed,
}

impl WindowHits {
    fn give_back(self) {
        let Self { windows, key, requests, window, deed } = self;
        let Deed::Take(hits) = deed else { return };
        // They were taken by the same numbers a moment ago, so these can be kept.
        if !windows.is_shared() {
            let _ = windows.give_back_to_window(&key, requests, window, hits);
        } else if let (Ok(given), Ok(runtime)) =
            (windows.ask_window(&key, requests, window, Deed::GiveBack(hits)), Handle::try_current())
        {
            runtime.spawn(given);
        }
    }
}
