//! `SLUICE.CHECK` and `SLUICE.PEEK`: decisions by the rules of the rule file.
//!
//! `SLUICE.CHECK rule [COST n] [name value ...]` checks a request against one rule. The request is described by
//! names and values in the notation of the rule file: `client.ip 203.0.113.9 header['x-tier'] vip account alice`.
//! The reply is an array of eight:
//!
//! 1. `1` if the request is admitted, at once or after its delay, otherwise `0`
//! 2. the limit that decided, `-1` if none: a list, a ban, or a rule that does not apply to the request
//! 3. its remaining quota, `-1` if none
//! 4. milliseconds until a retry; `-1` if admitted or if no time is known
//! 5. milliseconds until the limit is fully restored
//! 6. milliseconds to wait before proceeding
//! 7. the name of the rule that decided, or null
//! 8. `1` if the store was unavailable and the rule's failure policy decided, otherwise `0`
//!
//! An overload refusal has a ninth element: the readings for which the rule refuses requests.
//!
//! A missing key attribute and an empty value are errors.
//!
//! Milliseconds are rounded up. Nothing is held after the reply: a concurrency permit is released at once.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use sluicegate_engine::rule::{Attribute, Attributes, Request};
use sluicegate_engine::{Outcome, Verdict};
use smallvec::SmallVec;

use super::command::{CommandContext, CommandResult};
use super::parse::RespCommand;
use super::reply::{InputExcerpt, ReplyBuffer};
use crate::missing_key::missing_key_attribute;

/// `SLUICE.CHECK rule [COST n] [name value ...]`
pub(super) fn check(call: &mut CommandContext<'_>) -> CommandResult {
    check_rule(call, None)
}

/// `SLUICE.PEEK rule [name value ...]`
pub(super) fn peek(call: &mut CommandContext<'_>) -> CommandResult {
    check_rule(call, Some(0))
}

/// Checks a request against a rule with this cost, or with the cost in the command.
fn check_rule(call: &mut CommandContext<'_>, cost: Option<u64>) -> CommandResult {
    let CheckArgs { rule, cost: requested_cost, request, extra } = match CheckArgs::parse(call.command) {
        Ok(args) => args,
        Err(error) => return call.error(format_args!("ERR {error}")),
    };
    let request = request.with_cost(cost.unwrap_or(requested_cost)).with_attributes(&extra);
    let Some(mut admission) = call.resp.sluice.rule(rule).map(|rule| rule.decide_async(&request)) else {
        return call.error(format_args!("ERR no such rule '{}'", InputExcerpt(rule.as_bytes())));
    };
    // A request with a missing key attribute is never sent to the store.
    let Some(outcome) = admission.take() else { return CommandResult::PendingCheck(Box::new(admission)) };
    if let Some(attribute) = missing_key_attribute(&outcome, rule, &request) {
        let rule = InputExcerpt(rule.as_bytes());
        return call
            .error(format_args!("ERR rule '{rule}' is keyed by {attribute}, which is missing from the command"));
    }
    render(&outcome, call.replies);
    CommandResult::Done
}

/// The parsed arguments of a check command.
struct CheckArgs<'a> {
    rule: &'a str,
    cost: u64,
    request: Request<'a>,
    extra: ExtraAttributes<'a>,
}

/// Attributes without a field of their own in the engine's request.
struct ExtraAttributes<'a>(SmallVec<[(Attribute, &'a str); 4]>);

impl Attributes for ExtraAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| known == attribute).map(|(_, value)| Cow::Borrowed(*value))
    }
}

impl<'a> CheckArgs<'a> {
    fn parse(command: RespCommand<'a>) -> Result<Self, String> {
        let rule = text(command.word(1)).map_err(|_| "the rule name is not UTF-8".to_owned())?;
        let mut args = Self { rule, cost: 1, request: Request::new("", ""), extra: ExtraAttributes(SmallVec::new()) };
        let mut first = 2;
        if command.is(2, "cost") {
            let cost = text(command.word(3)).ok().and_then(|cost| cost.parse().ok());
            let invalid = || format!("invalid cost '{}': use a whole number, 0 or more", InputExcerpt(command.word(3)));
            args.cost = cost.ok_or_else(invalid)?;
            first = 4;
        }
        if !(command.len() - first).is_multiple_of(2) {
            let name = InputExcerpt(command.word(command.len() - 1));
            return Err(format!("attribute '{name}' has no value: use NAME VALUE pairs"));
        }
        let mut seen = SmallVec::<[Attribute; 4]>::new();
        for at in (first..command.len()).step_by(2) {
            let name = text(command.word(at)).map_err(|_| "an attribute name is not UTF-8".to_owned())?;
            let attribute: Attribute = name.parse().map_err(|error| format!("{error}"))?;
            if seen.contains(&attribute) {
                return Err(format!("duplicate attribute {attribute}"));
            }
            let value = text(command.word(at + 1)).map_err(|_| format!("the value of {attribute} is not UTF-8"))?;
            if value.is_empty() {
                return Err(format!("the value of {attribute} is empty: omit the attribute or set a value"));
            }
            args.set_attribute(attribute.clone(), value)?;
            seen.push(attribute);
        }
        Ok(args)
    }

    fn set_attribute(&mut self, attribute: Attribute, value: &'a str) -> Result<(), String> {
        match attribute {
            Attribute::ClientIp => {
                let ip = value.parse::<IpAddr>();
                let ip =
                    ip.map_err(|_| format!("invalid IP address '{}' for client.ip", InputExcerpt(value.as_bytes())))?;
                self.request.client_ip = Some(ip);
            }
            Attribute::Service => self.request.service = value,
            Attribute::Method => self.request.method = value,
            Attribute::Host => self.request.host = value,
            Attribute::Path => self.request.path = value,
            Attribute::Param(_) => {
                return Err(format!("{attribute} cannot be set by the caller: rules capture it from the path"));
            }
            other => self.extra.0.push((other, value)),
        }
        Ok(())
    }
}

fn text(word: &[u8]) -> Result<&str, std::str::Utf8Error> {
    str::from_utf8(word)
}

/// Writes the eight elements of a decision, and the ninth on overload.
pub(super) fn render(outcome: &Outcome, replies: &mut ReplyBuffer) {
    let decisive = outcome.decisions().find(|(_, checked)| !checked.shadow).or_else(|| outcome.decisions().next());
    let status = decisive.as_ref().map(|(_, checked)| checked.decision.status);
    let rule = outcome.rule().or(decisive.as_ref().map(|(rule, _)| *rule));
    let (retry, wait) = match outcome.verdict() {
        Verdict::Allowed => (None, Duration::ZERO),
        Verdict::Wait(delay) => (None, delay),
        Verdict::Denied { retry_after } => (retry_after, Duration::ZERO),
        Verdict::Never => (None, Duration::ZERO),
    };
    let notice = outcome.overload_notice();
    replies.array(8 + usize::from(notice.is_some()));
    replies.integer(outcome.is_admitted().into());
    replies.integer(status.map_or(-1, |status| saturating_i64(status.limit.into())));
    replies.integer(status.map_or(-1, |status| saturating_i64(status.remaining.into())));
    replies.integer(retry.map_or(-1, millis));
    replies.integer(status.map_or(0, |status| millis(Duration::from_nanos(status.reset))));
    replies.integer(millis(wait));
    match rule {
        Some(rule) => replies.bulk(rule.name.as_bytes()),
        None => replies.null(),
    }
    replies.integer(outcome.is_degraded().into());
    if let Some(notice) = notice {
        replies.bulk(notice.reason.as_bytes());
    }
}

fn millis(span: Duration) -> i64 {
    saturating_i64(span.as_nanos().div_ceil(1_000_000))
}

fn saturating_i64(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
