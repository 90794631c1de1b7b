//! Renders decisions as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Verdict};

use super::reservations::{ReservationId, ReservationKind, ReservationSlot, StoredReservation};

/// Initial capacity for a typical decision.
const TYPICAL_BYTES: usize = 320;

/// A JSON document under construction.
pub(super) struct JsonDocument(Vec<u8>);

impl JsonDocument {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(TYPICAL_BYTES))
    }

    /// Writes a decision.
    pub(super) fn decision(&mut self, outcome: &Outcome) {
        self.raw("{");
        self.fields(outcome);
        self.raw("}");
    }

    /// Writes a decision and, if it is admitted, stores its outcome and adds the reservation or permit.
    pub(super) fn decision_with_reservation(
        &mut self,
        name: &str,
        kind: ReservationKind,
        slot: ReservationSlot,
        outcome: Outcome,
        ttl: Duration,
    ) -> Option<ReservationId> {
        let mut decision = Self::new();
        decision.fields(&outcome);
        let stored = outcome.is_admitted().then(|| slot.fill(kind, outcome, ttl));
        self.raw("{");
        self.reservation(name, stored);
        self.raw(",");
        self.0.append(&mut decision.0);
        self.raw("}");
        stored.map(|stored| stored.id)
    }

    /// Writes the settlement of a reservation.
    pub(super) fn settled(&mut self, actual: Option<u64>) {
        match actual {
            Some(actual) => {
                self.raw("{\"settled\":true,\"actual\":");
                self.number(actual);
            }
            None => self.raw("{\"settled\":true,\"actual\":null"),
        }
        self.raw("}");
    }

    /// Writes a renewed permit.
    pub(super) fn renewed(&mut self, name: &str, stored: StoredReservation) {
        self.raw("{");
        self.reservation(name, Some(stored));
        self.raw("}");
    }

    fn reservation(&mut self, name: &str, stored: Option<StoredReservation>) {
        self.text(name);
        match stored {
            Some(StoredReservation { id, ttl }) => {
                self.raw(":");
                self.text(&id.to_string());
                self.raw(",\"expires_in_ms\":");
                self.millis(ttl);
            }
            None => self.raw(":null,\"expires_in_ms\":null"),
        }
    }

    /// Writes the results of several checks. `refused` is the index of the check that refused them all.
    pub(super) fn results<'o>(
        &mut self,
        allowed: bool,
        refused: Option<usize>,
        outcomes: impl IntoIterator<Item = &'o Outcome>,
    ) {
        self.raw("{\"allowed\":");
        self.flag(allowed);
        self.raw(",\"refused\":");
        match refused {
            Some(index) => self.number(index as u64),
            None => self.raw("null"),
        }
        self.raw(",\"results\":[");
        for (index, outcome) in outcomes.into_iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            self.decision(outcome);
        }
        self.raw("]}");
    }

    fn fields(&mut self, outcome: &Outcome) {
        self.raw("\"allowed\":");
        self.flag(outcome.is_admitted());
        self.raw(",\"verdict\":");
        self.verdict(outcome.verdict());
        let (wait, retry_after) = match outcome.verdict() {
            Verdict::Wait(delay) => (delay, None),
            Verdict::Denied { retry_after } => (Duration::ZERO, retry_after),
            Verdict::Allowed | Verdict::Never => (Duration::ZERO, None),
        };
        self.raw(",\"wait_ms\":");
        self.millis(wait);
        self.raw(",\"retry_after_ms\":");
        match retry_after {
            Some(wait) => self.millis(wait),
            None => self.raw("null"),
        }
        self.raw(",\"rule\":");
        match outcome.rule() {
            Some(rule) => self.text(&rule.name),
            None => self.raw("null"),
        }
        self.raw(match outcome.cause() {
            Cause::Rules => ",\"cause\":null",
            Cause::AllowList(_) => ",\"cause\":\"allow_list\"",
            Cause::DenyList(_) => ",\"cause\":\"deny_list\"",
            Cause::Ban(_) => ",\"cause\":\"ban\"",
            Cause::Limit(_) => ",\"cause\":\"limit\"",
            Cause::Overload(_) => ",\"cause\":\"overload\"",
        });
        if let Some(notice) = outcome.overload_notice() {
            self.raw(",\"reason\":");
            self.text(&notice.reason);
        }
        self.raw(",\"degraded\":");
        self.flag(outcome.is_degraded());
        self.raw(",\"limits\":[");
        for (index, (rule, checked)) in outcome.decisions().enumerate() {
            self.raw(if index > 0 { ",{\"rule\":" } else { "{\"rule\":" });
            self.text(&rule.name);
            self.raw(",\"limit\":");
            self.number(checked.decision.status.limit);
            self.raw(",\"remaining\":");
            self.number(checked.decision.status.remaining);
            self.raw(",\"reset_ms\":");
            self.millis(checked.decision.reset());
            self.raw(",\"verdict\":");
            self.verdict(checked.decision.verdict);
            self.raw(",\"shadow\":");
            self.flag(checked.shadow);
            self.raw(",\"degraded\":");
            self.flag(checked.degraded);
            self.raw("}");
        }
        self.raw("]");
    }

    fn verdict(&mut self, verdict: Verdict) {
        self.raw(match verdict {
            Verdict::Allowed => "\"allowed\"",
            Verdict::Wait(_) => "\"wait\"",
            Verdict::Denied { .. } => "\"denied\"",
            Verdict::Never => "\"never\"",
        });
    }

    /// Milliseconds, rounded up so that a retry is never too early.
    fn millis(&mut self, span: Duration) {
        self.number(u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
    }

    fn number(&mut self, number: u64) {
        self.raw(itoa::Buffer::new().format(number));
    }

    fn flag(&mut self, flag: bool) {
        self.raw(if flag { "true" } else { "false" });
    }

    fn text(&mut self, text: &str) {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.0, text);
    }

    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Finishes the document as a response.
    pub(super) fn into_response(self, status: StatusCode) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.0)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
