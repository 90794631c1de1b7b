//! How one descriptor fared.

use std::time::Duration;

use sluicegate_config::ratelimit::Unit;
use sluicegate_engine::sluice::{Cause, RuleDecision};
use sluicegate_engine::{Outcome, Verdict};
use sluicegate_http::headers::Left;

use super::claim::{Claim, State};
use super::limit::told;
use super::proto::{Code, DescriptorStatus, RateLimit};

/// What a limit is called that came with its descriptor, where clients are told a name.
const OVERRIDE: &str = "override";

/// How a descriptor fared, as far as the answer tells of it.
pub(super) struct Standing<'c> {
    pub(super) verdict: Verdict,
    /// Whether the whole request is refused for it.
    pub(super) refuses: bool,
    /// What the rules said, if they were asked.
    pub(super) outcome: Option<&'c Outcome>,
    /// The rule it hangs on.
    pub(super) rule: Option<&'c str>,
    /// What its file calls the limit, if it is of a file.
    name: Option<&'c str>,
    /// Whether that limit only watches.
    pub(super) shadow: bool,
    limit: Option<RateLimit>,
    pub(super) remaining: u32,
    reset: Option<Duration>,
}

impl<'c> Standing<'c> {
    /// Of a claim that is settled. Who is to pause for longer than its client waits is refused.
    pub(super) fn of(claim: &'c Claim, patience: Option<Duration>) -> Self {
        let terms = claim.terms.as_ref();
        let limit = || terms.map(|terms| terms.limit.clone());
        let mut standing = Self {
            verdict: Verdict::Allowed,
            refuses: false,
            outcome: None,
            rule: None,
            name: terms.and_then(|terms| terms.name.as_deref()),
            shadow: terms.is_some_and(|terms| terms.shadow),
            limit: None,
            remaining: 0,
            reset: None,
        };
        match &claim.state {
            State::Free | State::Returns | State::GivesBack(..) | State::AsksWindow(..) => {}
            State::Unlimited => standing.remaining = u32::MAX,
            State::Blocked => {
                standing.limit = limit();
                standing.verdict = if standing.shadow { Verdict::Allowed } else { Verdict::Never };
            }
            State::Window(said, _) => {
                standing.limit = limit();
                standing.verdict = match (said.limited, said.retry_after) {
                    (false, _) => Verdict::Allowed,
                    (true, Some(_)) => Verdict::Denied { retry_after: said.retry_after },
                    (true, None) => Verdict::Never,
                };
                standing.remaining = saturating(said.remaining);
                standing.reset = Some(said.reset_after);
            }
            State::Asked(_) | State::Decided(_) => {
                standing.rule = standing.name;
                if let Some(outcome) = claim.outcome() {
                    standing.hear(outcome, limit());
                }
            }
        }
        if claim.returns {
            standing.verdict = Verdict::Allowed;
        }
        if let Verdict::Wait(pause) = standing.verdict
            && patience.is_some_and(|patience| patience < pause)
        {
            standing.verdict = Verdict::Denied { retry_after: Some(pause) };
        }
        standing.refuses = !standing.verdict.is_admitted() && terms.is_none_or(|terms| !terms.quota);
        standing
    }

    /// Takes up what the rules said; `limit` is what is told of it, if that is known.
    fn hear(&mut self, outcome: &'c Outcome, limit: Option<RateLimit>) {
        (self.verdict, self.outcome) = (outcome.verdict(), Some(outcome));
        // A rule that only watches counts where the descriptor's own limit is one.
        let heard = outcome.decisions().filter(|(_, said)| limit.is_some() || !said.shadow);
        let tightest = |(_, said): &(_, RuleDecision)| (said.decision.is_admitted(), said.decision.status.remaining);
        if let Some((rule, said)) = heard.min_by_key(tightest) {
            let decided = || rule.limits.get(said.decision.limit).map(|limit| told(rule, limit));
            self.rule = Some(&rule.name);
            self.limit = limit.or_else(decided);
            self.remaining = saturating(said.decision.status.remaining);
            let wait = if said.decision.is_admitted() { None } else { said.decision.wait() };
            self.reset = Some(said.decision.reset().max(wait.unwrap_or_default()));
        } else if let (Cause::Ban(_), Verdict::Denied { retry_after }) = (outcome.cause(), outcome.verdict()) {
            self.rule = outcome.rule().map(|rule| rule.name.as_str());
            self.reset = retry_after;
        }
    }

    /// Whether anybody had a say.
    pub(super) fn is_told(&self) -> bool {
        self.limit.is_some() || !self.verdict.is_admitted()
    }

    /// What is left of a limit that clients can be told of without its rule: one that came with the descriptor, or
    /// lets nothing through.
    pub(super) fn left(&self) -> Option<Left<'_>> {
        let limit = self.limit.as_ref().filter(|_| !self.shadow && self.outcome.is_none())?;
        let unit = Unit::from_number(limit.unit).map(Unit::duration);
        Some(Left {
            name: self.name.unwrap_or(OVERRIDE),
            quota: limit.requests_per_unit.into(),
            window: unit.map(|unit| unit.saturating_mul(limit.unit_multiplier.unwrap_or(1))),
            remaining: self.remaining.into(),
            reset: self.reset,
        })
    }

    /// How long it pauses before it goes on.
    pub(super) fn pause(&self) -> Duration {
        match self.verdict {
            Verdict::Wait(pause) => pause,
            _ => Duration::ZERO,
        }
    }

    /// When to ask again; `None` if it was admitted, or that would not help.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let is_listed = self.outcome.is_some_and(|outcome| matches!(outcome.cause(), Cause::DenyList(_)));
        match self.verdict {
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
            Verdict::Denied { .. } if is_listed => None,
            // It hangs on others: there is no telling, but asking at once would be too early.
            Verdict::Denied { retry_after } => Some(retry_after.unwrap_or(Duration::from_secs(1))),
        }
    }

    /// What the proxy is told of it.
    pub(super) fn into_status(self) -> DescriptorStatus {
        DescriptorStatus {
            code: if self.verdict.is_admitted() { Code::Ok } else { Code::OverLimit }.into(),
            current_limit: self.limit,
            limit_remaining: self.remaining,
            duration_until_reset: self.reset.map(prost_duration),
        }
    }
}

fn saturating(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A time of the wire; the longest there is if it has no place for a longer one.
fn prost_duration(time: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: time.subsec_nanos().try_into().unwrap_or_default() }
}
