//! Check of one descriptor.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::adhoc::{AdHoc, AdHocError, Operation, ThrottleFuture, ThrottleResult};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_import::envoy_ratelimit::{DescriptorLimit, DescriptorMatch, LimitKind, RateLimitUnit};
use tokio::runtime::Handle;

use super::bad_request::BadRequest;
use super::descriptor::{DescriptorEntries, DescriptorKey, counter_key};
use super::limit_counters::{DescriptorOutcome, LimitCounters};
use super::proto::{Code, RateLimit, RateLimitDescriptor, RateLimitOverride};

/// The check of one descriptor of a request.
pub(super) struct DescriptorCheck {
    /// The limit, as known before the decision.
    pub(super) limit: Option<CheckedLimit>,
    pub(super) state: CheckState,
    /// Set when the descriptor refunds hits. A refund never refuses, not even with a zero limit.
    pub(super) is_refund: bool,
}

/// A limit from the ratelimit configuration or from the descriptor's override.
pub(super) struct CheckedLimit {
    /// As reported to the proxy.
    pub(super) rate_limit: RateLimit,
    /// Name in the ratelimit configuration, also of its rule, if any; `None` for an override.
    pub(super) name: Option<String>,
    /// Label of the metric series, if the configuration enables detailed metrics.
    series_label: Option<String>,
    /// True in shadow mode.
    pub(super) shadow: bool,
    /// True for a quota: exceeding it does not refuse the request.
    pub(super) quota: bool,
    /// Metadata of the configuration for later filters.
    pub(super) metadata: Option<serde_json::Value>,
}

/// State of a check.
pub(super) enum CheckState {
    /// No limit applies.
    NoLimit,
    /// The limit is unlimited.
    Unlimited,
    /// The limit is zero.
    Blocked,
    /// Rule decision, pending or done.
    Pending(Admission),
    /// Rule peek; the hits are refunded afterwards.
    PendingRefund(Admission, u64),
    /// Rule decision that has been awaited.
    Decided(Outcome),
    /// Result of a limit override.
    Window(ThrottleResult, Option<WindowHits>),
    /// Limit override that waits for the store.
    PendingWindow(ThrottleFuture, WindowHits),
    /// Hits to refund after everything else is admitted.
    RefundLater,
}

impl CheckState {
    /// State for the result of a limit override, with the hits to give back.
    fn from_window(result: ThrottleResult, spent: WindowHits) -> Self {
        let taken = !result.limited && matches!(spent.operation, Operation::Take(_));
        Self::Window(result, taken.then_some(spent))
    }
}

/// The use of a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HitMode {
    /// Spends hits; zero peeks.
    Spend(u64),
    /// Refunds hits that were spent earlier.
    GiveBack(u64),
}

impl HitMode {
    /// The hits to spend.
    const fn spent(self) -> u64 {
        match self {
            Self::Spend(hits) => hits,
            Self::GiveBack(_) => 0,
        }
    }

    /// The pending state of a rule decision.
    const fn pending_state(self, admission: Admission) -> CheckState {
        match self {
            Self::Spend(_) => CheckState::Pending(admission),
            Self::GiveBack(hits) => CheckState::PendingRefund(admission, hits),
        }
    }
}

/// Context of a check: the engine, ad-hoc limits and the domain.
pub(super) struct CheckContext<'a> {
    pub(super) sluice: &'a Sluice,
    pub(super) adhoc_windows: &'a Arc<AdHoc>,
    pub(super) domain: &'a str,
}

impl CheckContext<'_> {
    /// Validates a limit override.
    fn check_override(&self, number: usize, limit: &RateLimitOverride) -> Result<(), BadRequest> {
        let checked =
            self.adhoc_windows.validate_window(limit.requests_per_unit.into(), override_window(number, limit)?);
        checked.map_err(|error| BadRequest::invalid_override(number, &error))
    }
}

impl DescriptorCheck {
    pub(super) const NO_LIMIT: Self = Self { limit: None, state: CheckState::NoLimit, is_refund: false };

    /// A check that refunds hits later. Its limit is validated before any refund.
    pub(super) fn refund(
        context: &CheckContext<'_>,
        number: usize,
        descriptor: &RateLimitDescriptor,
    ) -> Result<Self, BadRequest> {
        if let Some(limit) = &descriptor.limit {
            context.check_override(number, limit)?;
        }
        Ok(Self { state: CheckState::RefundLater, is_refund: true, ..Self::NO_LIMIT })
    }

    /// Checks against a limit of the ratelimit configuration.
    pub(super) fn configured(context: &CheckContext<'_>, matched: DescriptorMatch<'_>, hit_mode: HitMode) -> Self {
        let DescriptorMatch { limit, key, series } = matched;
        let state = match limit.kind {
            LimitKind::Unlimited => CheckState::Unlimited,
            LimitKind::Blocked => CheckState::Blocked,
            LimitKind::Counted => {
                let counted = DescriptorKey(key);
                let request = counted.request(context.domain);
                let admission = context
                    .sluice
                    .rule(&limit.rule_name)
                    .map(|rule| rule.decide_async(&request.with_cost(hit_mode.spent())));
                // A reload has just removed the rule: no limit applies.
                let Some(admission) = admission else { return Self::NO_LIMIT };
                hit_mode.pending_state(admission)
            }
        };
        Self { limit: Some(CheckedLimit::configured(limit, series)), state, is_refund: false }
    }

    /// Checks against the rules of the rule file.
    pub(super) fn by_rules(context: &CheckContext<'_>, descriptor: &RateLimitDescriptor, hit_mode: HitMode) -> Self {
        let entries = DescriptorEntries(&descriptor.entries);
        let request = entries.request(context.domain);
        let admission = context.sluice.decide_async(&request.with_cost(hit_mode.spent()));
        Self { state: hit_mode.pending_state(admission), ..Self::NO_LIMIT }
    }

    /// Checks against the descriptor's limit override.
    pub(super) fn overridden(
        context: &CheckContext<'_>,
        number: usize,
        descriptor: &RateLimitDescriptor,
        limit: &RateLimitOverride,
        hit_mode: HitMode,
    ) -> Result<Self, BadRequest> {
        let window = override_window(number, limit)?;
        let checked_limit = Some(CheckedLimit::overridden(limit));
        let requests = u64::from(limit.requests_per_unit);
        if requests == 0 {
            context.check_override(number, limit)?;
            return Ok(Self { limit: checked_limit, state: CheckState::Blocked, is_refund: false });
        }
        let key = counter_key(context.domain, &descriptor.entries);
        let operation = match hit_mode {
            HitMode::Spend(hits) => Operation::Take(hits),
            HitMode::GiveBack(hits) => Operation::GiveBack(hits),
        };
        let invalid = |error: AdHocError| BadRequest::invalid_override(number, &error);
        let spent = WindowHits { adhoc_windows: Arc::clone(context.adhoc_windows), key, requests, window, operation };
        let state = if context.adhoc_windows.is_shared() {
            let future =
                context.adhoc_windows.window_async(&spent.key, requests, window, operation).map_err(invalid)?;
            CheckState::PendingWindow(future, spent)
        } else {
            let result = match operation {
                Operation::Take(hits) => context.adhoc_windows.window(&spent.key, requests, window, hits),
                Operation::GiveBack(hits) => {
                    context.adhoc_windows.give_back_to_window(&spent.key, requests, window, hits)
                }
            };
            CheckState::from_window(result.map_err(invalid)?, spent)
        };
        Ok(Self { limit: checked_limit, state, is_refund: false })
    }

    /// The outcome of the rules, once decided.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            CheckState::Pending(admission) => admission.decided(),
            CheckState::Decided(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// True if the check is not pending.
    pub(super) fn is_decided(&self) -> bool {
        match &self.state {
            CheckState::Pending(admission) => admission.decided().is_some(),
            CheckState::RefundLater | CheckState::PendingRefund(..) | CheckState::PendingWindow(..) => false,
            _ => true,
        }
    }

    /// Waits for the store, if it counts the rule.
    pub(super) async fn wait_for_store(&mut self) {
        if self.is_decided() {
            return;
        }
        if let CheckState::PendingWindow(future, _) = &mut self.state {
            let result = future.await;
            // Invalid limits were refused before.
            self.state = match (result, std::mem::replace(&mut self.state, CheckState::NoLimit)) {
                (Ok(result), CheckState::PendingWindow(_, spent)) => CheckState::from_window(result, spent),
                _ => CheckState::NoLimit,
            };
            return;
        }
        self.state = match &mut self.state {
            CheckState::Pending(admission) => CheckState::Decided(admission.await),
            CheckState::PendingRefund(admission, hits) => {
                let hits = *hits;
                let mut outcome = admission.await;
                outcome.refund(hits);
                CheckState::Decided(outcome)
            }
            _ => return,
        };
    }

    /// Counts the result if no rule does. Refunds are not counted: their hits were counted when spent.
    pub(super) fn count(&self, counters: &LimitCounters, code: Code) {
        let Some(limit) = self.limit.as_ref().filter(|_| !self.is_refund) else { return };
        let Some(name) = &limit.name else { return };
        let outcome = || match code {
            Code::OverLimit => DescriptorOutcome::Refused,
            _ if limit.shadow && self.is_over() => DescriptorOutcome::WouldRefuse,
            _ => DescriptorOutcome::Admitted,
        };
        if matches!(self.state, CheckState::Blocked) {
            counters.zero_limits.count(name, "", outcome());
        }
        if let Some(series) = &limit.series_label {
            counters.detailed.count(name, series, outcome());
        }
    }

    /// True if the limit is exceeded, also in shadow mode.
    fn is_over(&self) -> bool {
        let would_refuse = |outcome: &Outcome| outcome.would_refuse().next().is_some();
        matches!(self.state, CheckState::Blocked) || self.outcome().is_some_and(would_refuse)
    }

    /// Gives back everything taken.
    pub(super) fn give_back(&mut self) {
        match std::mem::replace(&mut self.state, CheckState::NoLimit) {
            CheckState::Pending(mut admission) => {
                if let Some(outcome) = admission.take() {
                    outcome.give_back();
                }
            }
            CheckState::Decided(outcome) => outcome.give_back(),
            CheckState::Window(_, Some(hits)) => hits.give_back(),
            CheckState::Window(_, None)
            | CheckState::NoLimit
            | CheckState::Unlimited
            | CheckState::Blocked
            | CheckState::RefundLater
            | CheckState::PendingWindow(..)
            | CheckState::PendingRefund(..) => {}
        }
    }
}

/// The window of a limit override.
pub(super) fn override_window(number: usize, limit: &RateLimitOverride) -> Result<Duration, BadRequest> {
    let unit =
        RateLimitUnit::from_proto_value(limit.unit).ok_or(BadRequest::UnknownUnit { number, unit: limit.unit })?;
    match limit.unit_multiplier.unwrap_or(1) {
        0 => Err(BadRequest::NoUnits { number }),
        times => Ok(unit.duration().saturating_mul(times)),
    }
}

impl CheckedLimit {
    fn configured(limit: &DescriptorLimit, series: Option<String>) -> Self {
        let rate_limit = RateLimit {
            name: limit.name.clone().unwrap_or_default(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, RateLimitUnit::proto_value),
            unit_multiplier: None,
        };
        let (name, metadata) = (Some(limit.rule_name.clone()), limit.metadata.clone());
        Self { rate_limit, name, series_label: series, shadow: limit.shadow, quota: limit.quota, metadata }
    }

    fn overridden(limit: &RateLimitOverride) -> Self {
        let rate_limit = RateLimit {
            name: String::new(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
            unit_multiplier: limit.unit_multiplier,
        };
        Self { rate_limit, name: None, series_label: None, shadow: false, quota: false, metadata: None }
    }
}

/// Hits spent on a limit override.
pub(super) struct WindowHits {
    adhoc_windows: Arc<AdHoc>,
    key: Vec<u8>,
    requests: u64,
    window: Duration,
    operation: Operation,
}

impl WindowHits {
    fn give_back(self) {
        let Self { adhoc_windows, key, requests, window, operation } = self;
        let Operation::Take(hits) = operation else { return };
        // The same limit was valid a moment ago.
        if !adhoc_windows.is_shared() {
            let _ = adhoc_windows.give_back_to_window(&key, requests, window, hits);
        } else if let (Ok(refund), Ok(runtime)) =
            (adhoc_windows.window_async(&key, requests, window, Operation::GiveBack(hits)), Handle::try_current())
        {
            runtime.spawn(refund);
        }
    }
}
