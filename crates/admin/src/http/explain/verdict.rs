//! What rules say of a request, one by one and together.

use std::time::Duration;

use sluicegate_engine::Verdict;
use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::rule::{Mode, Scope};
use sluicegate_engine::sluice::RuleExplanation;

use crate::http::rules;

/// What one rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) rule: String,
    key: String,
    /// `None`: it decides nothing here.
    pub(super) verdict: Option<&'static str>,
    /// The limit that it hangs on.
    pub(super) limit: Option<String>,
    pub(super) wait: Option<Duration>,
    banned: Option<Duration>,
    /// Why it holds requests back, if it is that.
    strain: Option<String>,
    is_shadow: bool,
    is_elsewhere: bool,
}

impl Said {
    pub(super) fn new(it: &RuleExplanation) -> Self {
        let limit = it.decision.and_then(|decision| it.rule.limits.get(decision.limit)).map(rules::limit);
        let shut = it.gate.as_ref().and_then(|gate| Some((gate.open.err()?, gate)));
        let admits = it.decision.is_none_or(|decision| decision.is_admitted());
        let shut = shut.filter(|_| it.banned.is_none() && admits);
        let (verdict, wait) = match (it.banned, it.decision.map(|decision| decision.verdict)) {
            _ if let Some((shut, _)) = &shut => (Some("refused"), shut.retry_after),
            (None, None) if it.gate.is_some() => (Some("allowed"), None),
            (Some(banned), _) => (Some("refused"), Some(banned)),
            (None, None) => (None, None),
            (None, Some(Verdict::Allowed)) => (Some("allowed"), None),
            (None, Some(Verdict::Wait(pause))) => (Some("wait"), Some(pause)),
            (None, Some(Verdict::Never)) => (Some("never"), None),
            (None, Some(Verdict::Denied { retry_after })) => {
                let stands_in_line = it.rule.on_limit.queue.is_some_and(|queue| {
                    retry_after.is_none_or(|wait| wait <= queue.max_wait) && it.rule.mode != Mode::Shadow
                });
                (Some(if stands_in_line { "wait" } else { "refused" }), retry_after)
            }
        };
        Self {
            rule: it.rule.name.clone(),
            key: it.key.clone().unwrap_or_default(),
            verdict,
            limit,
            wait,
            banned: it.banned,
            strain: shut.map(|(_, gate)| gate.notice.reason.clone()),
            is_shadow: it.rule.mode == Mode::Shadow,
            is_elsewhere: it.decision.is_none()
                && !it.rule.limits.is_empty()
                && matches!(it.rule.scope, Scope::Cluster { .. }),
        }
    }

    fn is(&self, verdict: &str) -> bool {
        !self.is_shadow && self.verdict == Some(verdict)
    }

    /// The rule and its key, in words.
    fn who(&self) -> String {
        match self.key.is_empty() {
            true => format!("rule '{}'", self.rule),
            false => format!("rule '{}' for {}", self.rule, self.key),
        }
    }

    fn limit(&self) -> &str {
        self.limit.as_deref().unwrap_or("its limit")
    }
}

/// What becomes of the request, and why.
pub(super) fn together(said: &[Said]) -> (&'static str, String) {
    if let Some(by) = said.iter().find(|it| !it.is_shadow && it.banned.is_some()) {
        let left = by.banned.map(shown).unwrap_or_default();
        return ("refused", format!("{}: banned for another {left}", by.who()));
    }
    if let Some(by) = said.iter().find(|it| it.is("never")) {
        return ("refused", format!("{}: it costs more than {} ever has", by.who(), by.limit()));
    }
    if let Some(by) = said.iter().find(|it| it.is("refused") && it.strain.is_some()) {
        let reason = by.strain.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("the process is under strain");
        return ("refused", format!("{} holds requests back: {reason}", by.who()));
    }
    if let Some(by) = said.iter().filter(|it| it.is("refused")).max_by_key(|it| it.wait.unwrap_or(Duration::MAX)) {
        return ("refused", format!("{}: {} is used up, {}", by.who(), by.limit(), again(by.wait)));
    }
    if let Some(by) = said.iter().filter(|it| it.is("wait")).max_by_key(|it| it.wait.unwrap_or(Duration::MAX)) {
        let turn = match by.wait {
            Some(wait) => format!("its turn comes in {}", shown(wait)),
            None => "its turn comes when others have finished".to_owned(),
        };
        return ("wait", format!("{}: {} makes it wait, {turn}", by.who(), by.limit()));
    }
    ("allowed", allowed(said))
}

fn allowed(said: &[Said]) -> String {
    let mut because = match said {
        [] => return "no rule applies".to_owned(),
        [one] => format!("{} has room for it", one.who()),
        many => format!("all {} rules that apply have room for it", many.len()),
    };
    let named = |pick: &dyn Fn(&Said) -> bool| {
        let names: Vec<String> = said.iter().filter(|it| pick(it)).map(|it| format!("'{}'", it.rule)).collect();
        names.join(", ")
    };
    if said.iter().any(|it| it.is_elsewhere) {
        let names = named(&|it| it.is_elsewhere);
        because = format!("as far as this process knows: the store was not asked for {names}");
    }
    let would = |it: &Said| it.is_shadow && matches!(it.verdict, Some("refused" | "never"));
    if said.iter().any(would) {
        because.push_str(&format!("; {} would have refused it, but only counts", named(&would)));
    }
    because
}

fn again(wait: Option<Duration>) -> String {
    match wait {
        Some(wait) => format!("again in {}", shown(wait)),
        None => "again when others have finished".to_owned(),
    }
}

fn shown(span: Duration) -> String {
    Span::for_people(span).to_string()
}
