//! What was decided, as JSON.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Verdict};

use super::held::{Id, Kept, Kind, Place};

/// Room for a usual decision.
const USUAL_LENGTH: usize = 320;

/// A document that is being written.
pub(super) struct Document(Vec<u8>);

impl Document {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(USUAL_LENGTH))
    }

    /// What was decided, alone.
    pub(super) fn decision(&mut self, outcome: &Outcome) {
        self.raw("{");
        self.fields(outcome);
        self.raw("}");
    }

    /// What was decided, and what is held because of it from now on, if it is admitted.
    pub(super) fn held(&mut self, name: &str, kind: Kind, place: Place, outcome: Outcome, ttl: Duration) -> Option<Id> {
        let mut decision = Self::new();
        decision.fields(&outcome);
        let kept = outcome.is_admitted().then(|| place.keep(kind, outcome, ttl));
        self.raw("{");
        self.kept(name, kept);
        self.raw(",");
        self.0.append(&mut decision.0);
        self.raw("}");
        kept.map(|kept| kept.id)
    }

    /// How a reservation has ended.
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

    /// What is held, alone.
    pub(super) fn renewed(&mut self, name: &str, kept: Kept) {
        self.raw("{");
        self.kept(name, Some(kept));
        self.raw("}");
    }

    fn kept(&mut self, name: &str, kept: Option<Kept>) {
        self.text(name);
        match kept {
            Some(Kept { id, ttl }) => {
                self.raw(":");
                self.text(&id.to_string());
                self.raw(",\"expires_in_ms\":");
                self.millis(ttl);
            }
            None => self.raw(":null,\"expires_in_ms\":null"),
        }
    }

    /// What several checks came to, with what each of them did. `refused` is the one they all failed for.
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
        for (nth, outcome) in outcomes.into_iter().enumerate() {
            if nth > 0 {
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
            Verdict::Wait(pause) => (pause, None),
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
            Cause::Strain(_) => ",\"cause\":\"strain\"",
        });
        if let Some(notice) = outcome.strain() {
            self.raw(",\"reason\":");
            self.text(&notice.reason);
        }
        self.raw(",\"degraded\":");
        self.flag(outcome.is_degraded());
        self.raw(",\"limits\":[");
        for (nth, (rule, said)) in outcome.decisions().enumerate() {
            self.raw(if nth > 0 { ",{\"rule\":" } else { "{\"rule\":" });
            self.text(&rule.name);
            self.raw(",\"limit\":");
            self.number(said.decision.status.limit);
            self.raw(",\"remaining\":");
            self.number(said.decision.status.remaining);
            self.raw(",\"reset_ms\":");
            self.millis(said.decision.reset());
            self.raw(",\"verdict\":");
            self.verdict(said.decision.verdict);
            self.raw(",\"shadow\":");
            self.flag(said.shadow);
            self.raw(",\"degraded\":");
            self.flag(said.degraded);
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

    /// Rounded up: who comes then does not come too early.
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
        // Text can always be written to memory.
        let _ = serde_json::to_writer(&mut self.0, text);
    }

    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// The answer with it.
    pub(super) fn answer(self, status: StatusCode) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.0)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
