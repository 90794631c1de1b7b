//! What a request really cost, found in what passes: rules that reserved an estimate are settled to it.
//!
//! Nothing is kept of the bodies but counts, and the number that is looked for.

mod amount;
mod events;
mod field;
mod key;
#[cfg(test)]
mod tests;

use http::{HeaderMap, header};
use sluicegate_engine::Outcome;
use sluicegate_engine::rule::{Actual, Cost, Rule};

use amount::amount;
use events::{Events, Part};
use field::Field;

/// Counts and reads along while a request is answered.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate_engine::{Limit, Rate, Sluice};
/// use sluicegate_engine::rule::{Actual, Cost, Request, Rule};
/// use sluicegate_http::Tally;
///
/// let mut tokens = Rule::new("tokens", [Limit::token_bucket(Rate::per_second(1)?, 10_000)?]);
/// let path = vec!["usage".to_owned(), "total_tokens".to_owned()];
/// tokens.cost = Cost::Estimate { reserve: 4_000, actual: Actual::ResponseJson(path) };
/// let sluice = Sluice::builder().rule(tokens).build()?;
///
/// let outcome = sluice.decide(&Request::new("POST", "/v1/chat/completions"));
/// let mut tally = Tally::of(&outcome).ok_or("a rule wants to know")?;
/// tally.answered(&HeaderMap::new());
/// tally.received(br#"{"choices": [], "usage": {"tot"#);
/// tally.received(br#"al_tokens": 321}}"#);
/// tally.settle(outcome);
///
/// let next = sluice.decide(&Request::new("POST", "/v1/chat/completions"));
/// assert_eq!(next.decisions().next().map(|(_, said)| said.decision.status.remaining), Some(10_000 - 321 - 4_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Tally {
    sent: Option<u64>,
    /// Of the answer's body; `None` until there is an answer.
    received: Option<u64>,
    told: Option<u64>,
    headers: Vec<(String, Option<u64>)>,
    fields: Vec<Field>,
    /// Where the answer is a stream of events, how far it is read.
    events: Option<Events>,
}

impl Tally {
    /// Of what the rules that admitted a request want to know. `None`: they want nothing, or are told.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let mut tally = None;
        for (rule, _) in outcome.decisions() {
            let Cost::Estimate { actual, .. } = &rule.cost else { continue };
            if !outcome.is_admitted() || *actual == Actual::Told {
                continue;
            }
            let Self { headers, fields, .. } = tally.get_or_insert_default();
            match actual {
                Actual::ResponseHeader(name) => headers.push((name.clone(), None)),
                Actual::ResponseJson(path) => fields.push(Field::new(path.clone())),
                Actual::Told | Actual::RequestBytes | Actual::ResponseBytes => {}
            }
        }
        tally
    }

    /// So many bytes of the request's body have passed. Call it with 0 for a request without one: who has
    /// not heard of any keeps what was reserved.
    pub fn sent(&mut self, bytes: u64) {
        let before = self.sent.unwrap_or(0);
        self.sent = Some(before.saturating_add(bytes));
    }

    /// The answer has begun, with these headers.
    pub fn answered(&mut self, headers: &HeaderMap) {
        self.received = Some(0);
        for (name, found) in &mut self.headers {
            *found = headers.get(name.as_str()).and_then(|value| amount(value.as_bytes()));
        }
        if is_encoded(headers) {
            self.fields.clear();
        }
        self.events = is_event_stream(headers).then(Events::default);
    }

    /// A piece of the answer's body has passed.
    pub fn received(&mut self, data: &[u8]) {
        let before = self.received.unwrap_or(0);
        self.received = Some(before.saturating_add(data.len() as u64));
        let fields = &mut self.fields;
        if fields.is_empty() {
            return;
        }
        match &mut self.events {
            None => fields.iter_mut().for_each(|field| field.read(data)),
            Some(events) => events.read(data, |part| {
                fields.iter_mut().for_each(|field| match part {
                    Part::Data(data) => field.read(data),
                    Part::End => field.start_over(),
                });
            }),
        }
    }

    /// The program that serves the request says what it cost, for the rules that are told.
    pub fn told(&mut self, actual: u64) {
        self.told = Some(actual);
    }

    /// Ends the request with what was found. Rules whose cost was not found keep what they reserved.
    pub fn settle(self, outcome: Outcome) {
        outcome.settle_by(|rule| self.found(rule));
    }

    fn found(&self, rule: &Rule) -> Option<u64> {
        let Cost::Estimate { actual, .. } = &rule.cost else { return None };
        match actual {
            Actual::Told => self.told,
            Actual::RequestBytes => self.sent,
            Actual::ResponseBytes => self.received,
            Actual::ResponseHeader(wanted) => self.headers.iter().find(|(name, _)| name == wanted)?.1,
            Actual::ResponseJson(path) => self.fields.iter().find(|field| field.path() == path)?.found(),
        }
    }
}

/// Whether the body is compressed or otherwise not to be read as it is.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    encodings.any(|encoding| !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
