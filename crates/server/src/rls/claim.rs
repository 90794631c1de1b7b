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
use super::proto::{Code, RateLimit, RateLimitDescriptor, RateLimitOverride};
use super::tally::{Fate, Tally};

/// One descriptor's part in a request.
pub(super) struct Claim {
    /// What is known of the limit before anybody is asked.
    pub(super) terms: Option<Terms>,
    pub(super) state: State,
    /// Whether it gives hits back, which refuses nothing: not even where everything is refused.
    pub(super) returns: bool,
}

/// A limit that the reference's files or the descriptor itself name.
pub(super) struct Terms {
    /// As the proxy is told of it.
    pub(super) limit: RateLimit,
    /// What its file calls it, and the rule that counts it, if a rule does; `None`: it came with the descriptor.
    pub(super) name: Option<String>,
    /// The values that are told apart in statistics, if its file asks for that.
    series: Option<String>,
    /// Whether it only watches.
    pub(super) shadow: bool,
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

impl Asked<'_> {
    /// Whether a limit that came with a descriptor could be counted.
    fn check(&self, nth: usize, limit: &RateLimitOverride) -> Result<(), BadRequest> {
        let checked = self.windows.check_window(limit.requests_per_unit.into(), window(nth, limit)?);
        checked.map_err(|why| BadRequest::overriding(nth, &why))
    }
}

impl Claim {
    pub(super) const FREE: Self = Self { terms: None, state: State::Free, returns: false };

    /// Hits that will be given back. Whether they can be is found out before any are.
    pub(super) fn returning(
        asked: &Asked<'_>,
        nth: usize,
        descriptor: &RateLimitDescriptor,
    ) -> Result<Self, BadRequest> {
        if let Some(limit) = &descriptor.limit {
            asked.check(nth, limit)?;
        }
        Ok(Self { state: State::Returns, returns: true, ..Self::FREE })
    }

    /// By a limit of the reference's files.
    pub(super) fn configured(asked: &Asked<'_>, found: Match<'_>, purpose: Purpose) -> Self {
        let Match { limit, key, series } = found;
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
        Self { terms: Some(Terms::configured(limit, series)), state, returns: false }
    }

    /// By the rules of the rule file.
    pub(super) fn by_rules(asked: &Asked<'_>, descriptor: &RateLimitDescriptor, purpose: Purpose) -> Self {
        let entries = Entries(&descriptor.entries);
        let request = entries.request(asked.domain);
        let admission = asked.sluice.ask(&request.with_cost(purpose.spent()));
        Self { state: purpose.asked(admission), ..Self::FREE }
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
        let terms = Some(Terms::overridden(limit));
        let requests = u64::from(limit.requests_per_unit);
        if requests == 0 {
            asked.check(nth, limit)?;
            return Ok(Self { terms, state: State::Blocked, returns: false });
        }
        let key = counter(asked.domain, &descriptor.entries);
        let deed = match purpose {
            Purpose::Spend(hits) => Deed::Take(hits),
            Purpose::GiveBack(hits) => Deed::GiveBack(hits),
        };
        let bad = |why: AdHocError| BadRequest::overriding(nth, &why);
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
        Ok(Self { terms, state, returns: false })
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

    /// Counts how it fared, as far as no rule does. Hits that come back were counted when they were spent.
    pub(super) fn count(&self, tally: &Tally, code: Code) {
        let Some(terms) = self.terms.as_ref().filter(|_| !self.returns) else { return };
        let Some(name) = &terms.name else { return };
        let fate = || match code {
            Code::OverLimit => Fate::Refused,
            _ if terms.shadow && self.is_over() => Fate::WouldRefuse,
            _ => Fate::Admitted,
        };
        if matches!(self.state, State::Blocked) {
            tally.zero_limits.count(name, "", fate());
        }
        if let Some(series) = &terms.series {
            tally.values.count(name, series, fate());
        }
    }

    /// Whether it is over its limit, also if that only watches.
    fn is_over(&self) -> bool {
        let watched = |outcome: &Outcome| outcome.would_refuse().next().is_some();
        matches!(self.state, State::Blocked) || self.outcome().is_some_and(watched)
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
    fn configured(limit: &DescriptorLimit, series: Option<String>) -> Self {
        let told = RateLimit {
            name: limit.name.clone().unwrap_or_default(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, Unit::number),
            unit_multiplier: None,
        };
        let (name, metadata) = (Some(limit.rule_name.clone()), limit.metadata.clone());
        Self { limit: told, name, series, shadow: limit.shadow, quota: limit.quota, metadata }
    }

    fn overridden(limit: &RateLimitOverride) -> Self {
        let told = RateLimit {
            name: String::new(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
            unit_multiplier: limit.unit_multiplier,
        };
        Self { limit: told, name: None, series: None, shadow: false, quota: false, metadata: None }
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
