//! `SLUICE.CHECK` and `SLUICE.PEEK`: decisions by the rules of the rule file.
//!
//! `SLUICE.CHECK rule [COST n] [name value ...]` asks one rule about a request of which it is told by name and
//! value, in the notation of the rule file: `client.ip 203.0.113.9 header['x-tier'] vip account alice`. The answer
//! is an array of eight:
//!
//! 1. `1` if the request may go on, at once or after its pause, otherwise `0`
//! 2. the limit that decided, `-1` if none did: a list, a ban, or a rule that does not apply to the request
//! 3. what remains of it, `-1` if none
//! 4. milliseconds after which to try again; `-1` if it may go on, or if no time can be told
//! 5. milliseconds until everything of the limit is there again
//! 6. milliseconds to pause before going on
//! 7. the name of the rule that decided, or nothing
//! 8. `1` if the store was lost and the rule's policy decided instead, otherwise `0`
//!
//! A refusal for the strain on the process has a ninth: the readings for which the rule holds requests back.
//!
//! A command that lacks what the rule counts by is an error, and so is an empty value: it would be as good as none.
//!
//! Milliseconds are rounded up. Nothing is held beyond the answer: a permit of a concurrency limit goes back at once.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use sluicegate_engine::rule::{Attribute, Attributes, Request};
use sluicegate_engine::{Outcome, Verdict};
use smallvec::SmallVec;

use super::command::{Call, Step};
use super::parse::Command;
use super::reply::{Replies, Shown};
use crate::lacking::lacking;

/// `SLUICE.CHECK rule [COST n] [name value ...]`
pub(super) fn check(call: &mut Call<'_>) -> Step {
    ask(call, None)
}

/// `SLUICE.PEEK rule [name value ...]`
pub(super) fn peek(call: &mut Call<'_>) -> Step {
    ask(call, Some(0))
}

/// Asks a rule, at this cost if one is given, otherwise at what the command says.
fn ask(call: &mut Call<'_>, cost: Option<u64>) -> Step {
    let Told { rule, cost: told, request, further } = match Told::read(call.command) {
        Ok(told) => told,
        Err(error) => return call.error(format_args!("ERR {error}")),
    };
    let request = request.with_cost(cost.unwrap_or(told)).with_attributes(&further);
    let Some(mut admission) = call.resp.sluice.ask_named(rule, &request) else {
        return call.error(format_args!("ERR no such rule '{}'", Shown(rule.as_bytes())));
    };
    // A request that lacks something is never asked of the store.
    let Some(outcome) = admission.take() else { return Step::Ask(Box::new(admission)) };
    if let Some(attribute) = lacking(&outcome, rule, &request) {
        let rule = Shown(rule.as_bytes());
        return call.error(format_args!("ERR the rule '{rule}' counts by {attribute}, which is not told: add it"));
    }
    render(&outcome, call.replies);
    Step::Done
}

/// What the command says of the request.
struct Told<'a> {
    rule: &'a str,
    cost: u64,
    request: Request<'a>,
    further: Further<'a>,
}

/// Attributes a request has no place of its own for.
struct Further<'a>(SmallVec<[(Attribute, &'a str); 4]>);

impl Attributes for Further<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| known == attribute).map(|(_, value)| Cow::Borrowed(*value))
    }
}

impl<'a> Told<'a> {
    fn read(command: Command<'a>) -> Result<Self, String> {
        let rule = text(command.word(1)).map_err(|_| "the name of the rule is not UTF-8".to_owned())?;
        let mut told = Self { rule, cost: 1, request: Request::new("", ""), further: Further(SmallVec::new()) };
        let mut first = 2;
        if command.is(2, "cost") {
            let cost = text(command.word(3)).ok().and_then(|cost| cost.parse().ok());
            let bad = || format!("'{}' is no cost: give a whole number, 0 or more", Shown(command.word(3)));
            told.cost = cost.ok_or_else(bad)?;
            first = 4;
        }
        if !(command.len() - first).is_multiple_of(2) {
            let alone = Shown(command.word(command.len() - 1));
            return Err(format!("'{alone}' has no value: give attributes as NAME VALUE"));
        }
        let mut seen = SmallVec::<[Attribute; 4]>::new();
        for at in (first..command.len()).step_by(2) {
            let name = text(command.word(at)).map_err(|_| "an attribute's name is not UTF-8".to_owned())?;
            let attribute: Attribute = name.parse().map_err(|error| format!("{error}"))?;
            if seen.contains(&attribute) {
                return Err(format!("attribute {attribute} is given twice"));
            }
            let value = text(command.word(at + 1)).map_err(|_| format!("the value of {attribute} is not UTF-8"))?;
            if value.is_empty() {
                return Err(format!("the value of {attribute} is empty: leave it out, or say what it is"));
            }
            told.note(attribute.clone(), value)?;
            seen.push(attribute);
        }
        Ok(told)
    }

    fn note(&mut self, attribute: Attribute, value: &'a str) -> Result<(), String> {
        match attribute {
            Attribute::ClientIp => {
                let ip = value.parse::<IpAddr>();
                let ip = ip.map_err(|_| format!("'{}' is no address for client.ip", Shown(value.as_bytes())))?;
                self.request.client_ip = Some(ip);
            }
            Attribute::Service => self.request.service = value,
            Attribute::Method => self.request.method = value,
            Attribute::Host => self.request.host = value,
            Attribute::Path => self.request.path = value,
            Attribute::Param(_) => {
                return Err(format!("{attribute} is not for the caller to say: it is captured by a rule's path"));
            }
            further => self.further.0.push((further, value)),
        }
        Ok(())
    }
}

fn text(word: &[u8]) -> Result<&str, std::str::Utf8Error> {
    str::from_utf8(word)
}

/// Writes the eight things that are told of a decision, and the ninth where there is strain.
pub(super) fn render(outcome: &Outcome, replies: &mut Replies) {
    let said = outcome.decisions().find(|(_, said)| !said.shadow).or_else(|| outcome.decisions().next());
    let status = said.as_ref().map(|(_, said)| said.decision.status);
    let rule = outcome.rule().or(said.as_ref().map(|(rule, _)| *rule));
    let (retry, wait) = match outcome.verdict() {
        Verdict::Allowed => (None, Duration::ZERO),
        Verdict::Wait(pause) => (None, pause),
        Verdict::Denied { retry_after } => (retry_after, Duration::ZERO),
        Verdict::Never => (None, Duration::ZERO),
    };
    let strain = outcome.strain();
    replies.array(8 + usize::from(strain.is_some()));
    replies.integer(outcome.is_admitted().into());
    replies.integer(status.map_or(-1, |status| whole(status.limit.into())));
    replies.integer(status.map_or(-1, |status| whole(status.remaining.into())));
    replies.integer(retry.map_or(-1, millis));
    replies.integer(status.map_or(0, |status| millis(Duration::from_nanos(status.reset))));
    replies.integer(millis(wait));
    match rule {
        Some(rule) => replies.bulk(rule.name.as_bytes()),
        None => replies.null(),
    }
    replies.integer(outcome.is_degraded().into());
    if let Some(notice) = strain {
        replies.bulk(notice.reason.as_bytes());
    }
}

fn millis(span: Duration) -> i64 {
    whole(span.as_nanos().div_ceil(1_000_000))
}

fn whole(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
