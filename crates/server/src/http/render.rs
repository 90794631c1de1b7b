//! Renders decisions as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::{Serialize, Serializer};
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Verdict};
use sluicegate_http_adapter::api::openapi;
use utoipa::ToSchema;

use super::reservations::{ReservationId, ReservationKind, ReservationSlot, StoredReservation};

/// Initial capacity for a typical decision.
const TYPICAL_BYTES: usize = 320;

/// The decision.
#[derive(Serialize, ToSchema)]
#[schema(as = Decision)]
pub(super) struct DecisionView<'a> {
    /// True if the request may proceed, at once or after `wait_ms`.
    allowed: bool,
    verdict: VerdictName,
    /// Milliseconds to wait before proceeding. Rounded up.
    wait_ms: u64,
    /// Milliseconds until the request would be allowed if no other request arrives. Null if that time is unknown or does
    /// not apply. Rounded up.
    retry_after_ms: Option<u64>,
    /// The rule that refused.
    rule: Option<&'a str>,
    cause: Option<CauseName>,
    /// Only with the cause `overload`: the readings for which the rule limits requests, and the limit it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// True if a rule was decided without its store.
    degraded: bool,
    /// The decision of every matching rule. Empty if a list or a ban decided.
    #[schema(value_type = Vec<RuleDecisionView<'a>>)]
    limits: RuleDecisions<'a>,
}

/// The decision of one rule, with the limit that determined it.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleDecision)]
struct RuleDecisionView<'a> {
    rule: &'a str,
    /// The limit.
    limit: u64,
    /// The remaining quota.
    remaining: u64,
    /// Milliseconds until the limit has fully recovered if no other request arrives. Rounded up.
    reset_ms: u64,
    verdict: VerdictName,
    /// True if the rule is in shadow mode.
    shadow: bool,
    /// True if the rule was decided without its store.
    degraded: bool,
}

/// The results of several checks.
#[derive(Serialize, ToSchema)]
#[schema(as = Decisions)]
pub(super) struct DecisionsView<'a> {
    /// True if all requests may proceed.
    allowed: bool,
    /// With `all_or_nothing`: the index of the refused check. `results` ends with it, and nothing was consumed.
    refused: Option<usize>,
    /// The decisions, in the order of the checks.
    results: Vec<DecisionView<'a>>,
}

/// `allowed`: proceed. `wait`: proceed after `wait_ms`; the slot is already reserved. `denied`: not now. `never`: the
/// cost exceeds the limit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Verdict)]
enum VerdictName {
    Allowed,
    Wait,
    Denied,
    Never,
}

/// The cause of the verdict. Null if no rule matched or all matching rules admitted the request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Cause)]
enum CauseName {
    Limit,
    Overload,
    Ban,
    DenyList,
    AllowList,
}

/// The reservation of an admitted request.
#[derive(Serialize, ToSchema)]
pub(super) struct ReservationView {
    /// The id of the reservation. Null if the request is refused.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    reservation: Option<String>,
    /// Milliseconds until it expires. Rounded up.
    expires_in_ms: Option<u64>,
}

/// The permit of an admitted request.
#[derive(Serialize, ToSchema)]
pub(super) struct PermitView {
    /// The id of the permit. Null if the request is refused.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    permit: Option<String>,
    /// Milliseconds until it expires. Rounded up.
    expires_in_ms: Option<u64>,
}

/// A renewed permit.
#[derive(Serialize, ToSchema)]
#[schema(as = Renewed)]
pub(super) struct RenewedView {
    /// The id of the permit.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    permit: String,
    /// Milliseconds until it expires. Rounded up.
    expires_in_ms: u64,
}

/// A settled reservation.
#[derive(Serialize, ToSchema)]
#[schema(as = Settled)]
pub(super) struct SettledView {
    #[schema(schema_with = openapi::always_true)]
    settled: bool,
    /// The actual cost. Null if the reservation was cancelled.
    actual: Option<u64>,
}

/// The decisions of the rules, written without a list in memory.
struct RuleDecisions<'a>(&'a Outcome);

impl Serialize for RuleDecisions<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.decisions().map(|(rule, checked)| RuleDecisionView {
            rule: &rule.name,
            limit: checked.decision.status.limit,
            remaining: checked.decision.status.remaining,
            reset_ms: millis(checked.decision.reset()),
            verdict: checked.decision.verdict.into(),
            shadow: checked.shadow,
            degraded: checked.degraded,
        }))
    }
}

impl<'a> From<&'a Outcome> for DecisionView<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let (wait, retry_after) = match outcome.verdict() {
            Verdict::Wait(delay) => (delay, None),
            Verdict::Denied { retry_after } => (Duration::ZERO, retry_after),
            Verdict::Allowed | Verdict::Never => (Duration::ZERO, None),
        };
        Self {
            allowed: outcome.is_admitted(),
            verdict: outcome.verdict().into(),
            wait_ms: millis(wait),
            retry_after_ms: retry_after.map(millis),
            rule: outcome.rule().map(|rule| rule.name.as_str()),
            cause: match outcome.cause() {
                Cause::Rules => None,
                Cause::AllowList(_) => Some(CauseName::AllowList),
                Cause::DenyList(_) => Some(CauseName::DenyList),
                Cause::Ban(_) => Some(CauseName::Ban),
                Cause::Limit(_) => Some(CauseName::Limit),
                Cause::Overload(_) => Some(CauseName::Overload),
            },
            reason: outcome.overload_notice().map(|notice| notice.reason.clone()),
            degraded: outcome.is_degraded(),
            limits: RuleDecisions(outcome),
        }
    }
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allowed => Self::Allowed,
            Verdict::Wait(_) => Self::Wait,
            Verdict::Denied { .. } => Self::Denied,
            Verdict::Never => Self::Never,
        }
    }
}

/// Milliseconds, rounded up so that a retry is never too early.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A JSON document under construction.
pub(super) struct JsonDocument(Vec<u8>);

impl JsonDocument {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(TYPICAL_BYTES))
    }

    /// Writes a decision.
    pub(super) fn decision(&mut self, outcome: &Outcome) {
        self.write(&DecisionView::from(outcome));
    }

    /// Writes a decision and, if it is admitted, stores its outcome and adds the reservation or permit.
    pub(super) fn decision_with_reservation(
        &mut self,
        kind: ReservationKind,
        slot: ReservationSlot,
        outcome: Outcome,
        ttl: Duration,
    ) -> Option<ReservationId> {
        // The store takes the outcome, so the decision is written first.
        let mut decision = Self::new();
        decision.decision(&outcome);
        let stored = outcome.is_admitted().then(|| slot.fill(kind, outcome, ttl));
        let id = stored.map(|stored| stored.id.to_string());
        let expires_in_ms = stored.map(|stored| millis(stored.ttl));
        match kind {
            ReservationKind::Reservation => self.write(&ReservationView { reservation: id, expires_in_ms }),
            ReservationKind::Permit => self.write(&PermitView { permit: id, expires_in_ms }),
        }
        // Joins the two objects: `{"permit":null}` and `{"allowed":false}` to `{"permit":null,"allowed":false}`.
        self.0.pop();
        self.0.push(b',');
        self.0.extend(decision.0.drain(1..));
        stored.map(|stored| stored.id)
    }

    /// Writes the settlement of a reservation.
    pub(super) fn settled(&mut self, actual: Option<u64>) {
        self.write(&SettledView { settled: true, actual });
    }

    /// Writes a renewed permit.
    pub(super) fn renewed(&mut self, stored: StoredReservation) {
        self.write(&RenewedView { permit: stored.id.to_string(), expires_in_ms: millis(stored.ttl) });
    }

    /// Writes the results of several checks. `refused` is the index of the check that refused them all.
    pub(super) fn results<'o>(
        &mut self,
        allowed: bool,
        refused: Option<usize>,
        outcomes: impl IntoIterator<Item = &'o Outcome>,
    ) {
        let results = outcomes.into_iter().map(DecisionView::from).collect();
        self.write(&DecisionsView { allowed, refused, results });
    }

    fn write<T: Serialize>(&mut self, view: &T) {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.0, view);
    }

    /// Finishes the document as a response.
    pub(super) fn into_response(self, status: StatusCode) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.0)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
