//! Actual cost of a request, measured on its request and response; settles rules that reserved an estimate.
//!
//! Bodies are not buffered: only byte counts and the wanted number are kept.

mod json_field;
mod json_key;
mod number;
mod sse;
#[cfg(test)]
mod tests;

use http::{HeaderMap, header};
use sluicegate_engine::Outcome;
use sluicegate_engine::rule::{Cost, CostSource, Rule};

use json_field::JsonField;
use number::parse_cost;
use sse::{SseParser, SsePart};

/// Measures the actual cost while a request is served.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate_engine::{Limit, Rate, Sluice};
/// use sluicegate_engine::rule::{Cost, CostSource, Request, Rule};
/// use sluicegate_http_adapter::CostMeter;
///
/// let mut tokens = Rule::new("tokens", [Limit::token_bucket(Rate::per_second(1)?, 10_000)?]);
/// let path = vec!["usage".to_owned(), "total_tokens".to_owned()];
/// tokens.cost = Cost::Estimate { reserve: 4_000, actual: CostSource::ResponseJson(path) };
/// let sluice = Sluice::builder().rule(tokens).build()?;
///
/// let outcome = sluice.decide(&Request::new("POST", "/v1/chat/completions"));
/// let mut meter = CostMeter::for_outcome(&outcome).ok_or("a rule has an estimated cost")?;
/// meter.response_head(&HeaderMap::new());
/// meter.response_data(br#"{"choices": [], "usage": {"tot"#);
/// meter.response_data(br#"al_tokens": 321}}"#);
/// meter.settle(outcome);
///
/// let next = sluice.decide(&Request::new("POST", "/v1/chat/completions"));
/// assert_eq!(next.decisions().next().map(|(_, rule)| rule.decision.status.remaining), Some(10_000 - 321 - 4_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct CostMeter {
    request_bytes: Option<u64>,
    /// Bytes of the response body; `None` before the response.
    response_bytes: Option<u64>,
    reported: Option<u64>,
    headers: Vec<(String, Option<u64>)>,
    fields: Vec<JsonField>,
    /// Parser state if the response is an event stream.
    events: Option<SseParser>,
}

impl CostMeter {
    /// Creates a meter for an admitted request; `None` if no rule needs one, or all costs are reported explicitly.
    pub fn for_outcome(outcome: &Outcome) -> Option<Self> {
        let mut tally = None;
        for (rule, _) in outcome.decisions() {
            let Cost::Estimate { actual, .. } = &rule.cost else { continue };
            if !outcome.is_admitted() || *actual == CostSource::Reported {
                continue;
            }
            let Self { headers, fields, .. } = tally.get_or_insert_default();
            match actual {
                CostSource::ResponseHeader(name) => headers.push((name.clone(), None)),
                CostSource::ResponseJson(path) => fields.push(JsonField::new(path.clone())),
                CostSource::Reported | CostSource::RequestBytes | CostSource::ResponseBytes => {}
            }
        }
        tally
    }

    /// Adds bytes of the request body. Call it with 0 for a request without a body: without any call, the
    /// reserved cost is kept.
    pub fn add_request_bytes(&mut self, bytes: u64) {
        let before = self.request_bytes.unwrap_or(0);
        self.request_bytes = Some(before.saturating_add(bytes));
    }

    /// Records the response headers.
    pub fn response_head(&mut self, headers: &HeaderMap) {
        self.response_bytes = Some(0);
        for (name, found) in &mut self.headers {
            *found = headers.get(name.as_str()).and_then(|value| parse_cost(value.as_bytes()));
        }
        if is_encoded(headers) {
            self.fields.clear();
        }
        self.events = is_event_stream(headers).then(SseParser::default);
    }

    /// Records a chunk of the response body.
    pub fn response_data(&mut self, data: &[u8]) {
        let before = self.response_bytes.unwrap_or(0);
        self.response_bytes = Some(before.saturating_add(data.len() as u64));
        let fields = &mut self.fields;
        if fields.is_empty() {
            return;
        }
        match &mut self.events {
            None => fields.iter_mut().for_each(|field| field.read(data)),
            Some(events) => events.read(data, |part| {
                fields.iter_mut().for_each(|field| match part {
                    SsePart::Data(data) => field.read(data),
                    SsePart::End => field.next_document(),
                });
            }),
        }
    }

    /// Sets the cost reported by the application, for rules with an explicitly reported cost.
    pub fn set_reported(&mut self, actual: u64) {
        self.reported = Some(actual);
    }

    /// Settles the outcome with the measured costs. Rules without a measured cost keep their reservation.
    pub fn settle(self, outcome: Outcome) {
        outcome.settle_by(|rule| self.cost_of(rule));
    }

    fn cost_of(&self, rule: &Rule) -> Option<u64> {
        let Cost::Estimate { actual, .. } = &rule.cost else { return None };
        match actual {
            CostSource::Reported => self.reported,
            CostSource::RequestBytes => self.request_bytes,
            CostSource::ResponseBytes => self.response_bytes,
            CostSource::ResponseHeader(wanted) => self.headers.iter().find(|(name, _)| name == wanted)?.1,
            CostSource::ResponseJson(path) => self.fields.iter().find(|field| field.path() == path)?.value(),
        }
    }
}

/// True if the body is compressed or otherwise encoded and cannot be parsed.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    encodings.any(|encoding| !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
