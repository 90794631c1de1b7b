//! `sluicegate explain`: decides one request and explains the decision.

use std::fmt::Write;
use std::time::Duration;

use sluicegate_admin::match_explain;
use sluicegate_config::Settings;
use sluicegate_engine::Verdict;
use sluicegate_engine::rule::{Direction, ListHit, Reply, Request, Rule};
use sluicegate_engine::sluice::{Cause, Explanation, Outcome, RuleExplanation};
use sluicegate_import::envoy_ratelimit::LimitKind;
use sluicegate_server::Domains;
use sluicegate_terminal::CommandOutput;
use sluicegate_terminal::table::{RowStyle, draw};

use crate::args::Explain;
use crate::describe_rules::{self, duration};
use crate::request_args::RequestSpec;
use crate::rules::{self, LoadedRules};
use crate::simulate::Simulation;
use crate::style::TerminalStyle;

pub(crate) fn run(args: &Explain, style: TerminalStyle) -> CommandOutput {
    match explain(args, style) {
        Ok(text) => CommandOutput::done(text),
        Err(output) => output,
    }
}

/// Predicted result of the request.
enum Prediction {
    /// Decided immediately.
    Decided(Outcome),
    /// Queued for this long, then decided.
    Waited(Duration, Outcome),
    /// Queued until other requests finish, at a time that is not known.
    WaitsForRelease,
}

fn explain(args: &Explain, style: TerminalStyle) -> Result<String, CommandOutput> {
    let LoadedRules { loaded, domains, .. } = rules::load(&args.file, style)?;
    let mut settings = loaded.settings;
    let mut spec = RequestSpec::from_args(&args.request);
    if let Some(domains) = domains
        && let Some(result) = select_descriptor_limit(&domains, &mut spec, &mut settings)
    {
        return Ok(format!("{}\n\n{result}\n", spec.title()));
    }
    let (sluice, clock) = rules::simulate(&settings)?;
    let request = spec.request();
    let mut simulation = Simulation::new(sluice, clock);

    let last = args.repeat as usize;
    // The earlier requests are still in flight and hold their permits.
    let _in_flight: Vec<_> = (1..last).map(|number| simulation.decide(number, &request)).collect();
    let explanation = simulation.sluice.explain(&request);
    let prediction = predict(&mut simulation, last, &request);
    Ok(render(&settings, &spec, args.repeat, &explanation, &prediction))
}

/// At most one limit of the envoyproxy/ratelimit files applies to a descriptor; the others are removed. Returns
/// the result if it is known without a limit.
fn select_descriptor_limit(domains: &Domains, spec: &mut RequestSpec, settings: &mut Settings) -> Option<&'static str> {
    let domain = spec.domain().filter(|domain| domains.contains(domain))?.to_owned();
    let found = domains.find(&domain, spec.entries());
    let kind = found.as_ref().map(|found| (found.limit.kind, found.limit.shadow));
    let (name, key) = found.map(|found| (found.limit.rule_name.clone(), found.key)).unwrap_or_default();
    match kind {
        None => Some("No limit applies: allowed."),
        Some((LimitKind::Unlimited, _)) => Some("The matching limit is `unlimited`: allowed."),
        Some((LimitKind::Blocked, false)) => Some("The matching limit is zero: always refused."),
        Some((LimitKind::Blocked, true)) => {
            Some("The matching limit is zero, but in shadow mode: allowed, and counted as `would_refuse`.")
        }
        Some((LimitKind::Counted, _)) => {
            settings.rules.retain(|rule| rule.name == name);
            if !key.is_empty() {
                spec.insert("descriptor", &key);
            }
            None
        }
    }
}

fn predict(simulation: &mut Simulation, index: usize, request: &Request<'_>) -> Prediction {
    if let Some(outcome) = simulation.decide(index, request) {
        return Prediction::Decided(outcome);
    }
    // Requests that leave the queue stay in flight too.
    let mut in_flight = Vec::new();
    loop {
        let admitted = simulation.advance_to_next_admission();
        if admitted.is_empty() {
            return Prediction::WaitsForRelease;
        }
        for request in admitted {
            if request.index == index {
                return match request.outcome.verdict() {
                    // A pause is part of the verdict; the time before it was spent in the queue.
                    Verdict::Wait(pause) if pause >= request.at => Prediction::Decided(request.outcome),
                    Verdict::Wait(pause) => Prediction::Waited(request.at - pause, request.outcome),
                    _ => Prediction::Waited(request.at, request.outcome),
                };
            }
            in_flight.push(request.outcome);
        }
    }
}

fn render(
    settings: &Settings,
    spec: &RequestSpec,
    repeat: u32,
    explanation: &Explanation,
    prediction: &Prediction,
) -> String {
    let request = spec.request();
    let mut page = spec.title();
    if let Some(ip) = request.canonical_ip() {
        let _ = write!(page, " from {ip}");
    }
    if repeat > 1 {
        let _ = write!(page, ", request {repeat} of {repeat} at the same instant");
    }
    page.push_str("\n\n");

    let (applying, keyless): (Vec<&RuleExplanation>, _) = explanation.rules.iter().partition(|it| it.key.is_some());
    if applying.is_empty() {
        page.push_str("No rule applies.\n");
    } else {
        let rows = applying.iter().map(|it| row(it, prediction)).collect();
        page.push_str(&draw(RowStyle::Plain, ["rule", "key", "cost", "limit", "remaining", "decision"], rows));
    }

    let mut others: Vec<[String; 2]> = Vec::new();
    for rule in &settings.rules {
        if applying.iter().any(|it| it.rule.name == rule.name) {
            continue;
        }
        let reason = match keyless.iter().any(|it| it.rule.name == rule.name) {
            true => format!("matches, but the request has no {}", match_explain::missing_key(rule, &request)),
            false => {
                match_explain::mismatch_reason(rule, &request).unwrap_or_default() + direction_flag(rule, &request)
            }
        };
        others.push([rule.name.clone(), reason]);
    }
    if !others.is_empty() {
        page.push('\n');
        page.push_str(&draw(RowStyle::Plain, ["not applied", "reason"], others));
    }
    let _ = writeln!(page, "\nResult: {}.", summary(settings, explanation, prediction));
    page
}

fn row(it: &RuleExplanation, prediction: &Prediction) -> [String; 6] {
    let key = match it.key.as_deref() {
        None | Some("") => "-".to_owned(),
        Some(key) => key.to_owned(),
    };
    if describe_rules::is_bandwidth_only(&it.rule) {
        let decision_text = "allowed: the response is paced".to_owned();
        return [
            it.rule.name.clone(),
            key,
            "-".to_owned(),
            describe_rules::limits(&it.rule),
            String::new(),
            decision_text,
        ];
    }
    let (limit, remaining, mut decision_text) = match it.decision {
        Some(decision) => {
            let limit = it.rule.limits.get(decision.limit).map(ToString::to_string).unwrap_or_default();
            let status = status_after(&it.rule, prediction).unwrap_or(decision.status);
            (limit, format!("{} of {}", status.remaining, status.limit), verdict(decision.verdict))
        }
        None if it.rule.is_metering() => {
            let limits: Vec<String> = it.rule.limits.iter().map(ToString::to_string).collect();
            (limits.join(", "), String::new(), "allowed: the bytes are paced".to_owned())
        }
        None if let Some(adaptive) = &it.rule.adaptive => {
            (adaptive.to_string(), String::new(), "allowed: no overload".to_owned())
        }
        None => ("no limits".to_owned(), String::new(), "-".to_owned()),
    };
    if let Some(remaining) = it.banned {
        decision_text = format!("refused: banned for {}", duration(remaining));
    }
    if it.rule.mode == sluicegate_engine::rule::Mode::Shadow {
        decision_text.push_str(" (shadow mode)");
    }
    [it.rule.name.clone(), key, it.cost.to_string(), limit, remaining, decision_text]
}

/// Status of the rule's deciding limit after the request, if it was evaluated.
fn status_after(rule: &Rule, prediction: &Prediction) -> Option<sluicegate_engine::algorithm::Status> {
    let Prediction::Decided(outcome) = prediction else { return None };
    let checked = outcome.decisions().find(|(it, _)| it.name == rule.name);
    checked.map(|(_, checked)| checked.decision.status)
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Wait(pause) => format!("allowed after a delay of {}", duration(pause)),
        Verdict::Denied { retry_after: Some(wait) } => format!("refused: retry in {}", duration(wait)),
        Verdict::Denied { retry_after: None } => "refused: retry when running requests finish".to_owned(),
        Verdict::Never => "refused: the cost exceeds the limit".to_owned(),
    }
}

fn summary(settings: &Settings, explanation: &Explanation, prediction: &Prediction) -> String {
    match explanation.list {
        Some(ListHit::Allow(entry)) => {
            let text = settings.lists.allow.get(entry).map_or("", |entry| &entry.text);
            return format!("allowed by the allow list (rules not checked): {text}");
        }
        Some(ListHit::Deny(entry)) => {
            let text = settings.lists.deny.get(entry).map_or("", |entry| &entry.text);
            return format!("refused by the deny list (rules not checked): {text}");
        }
        None => {}
    }
    match prediction {
        Prediction::Decided(outcome) => final_decision(outcome),
        Prediction::Waited(time, outcome) => {
            format!("waits in the queue for {}, then {}", duration(*time), final_decision(outcome))
        }
        Prediction::WaitsForRelease => "waits in the queue until running requests finish".to_owned(),
    }
}

fn final_decision(outcome: &Outcome) -> String {
    let Some(rule) = outcome.rule() else { return verdict(outcome.verdict()) };
    let what = match (outcome.cause(), outcome.limit()) {
        (Cause::Ban(_), _) => "banned".to_owned(),
        (Cause::Overload(_), _) => "overload protection".to_owned(),
        (_, Some(limit)) => limit.to_string(),
        _ => "limits".to_owned(),
    };
    let retry = match outcome.verdict() {
        Verdict::Denied { retry_after: Some(wait) } => format!("retry in {}", duration(wait)),
        Verdict::Never => "never admitted: the cost exceeds the limit".to_owned(),
        _ => "retry when running requests finish".to_owned(),
    };
    format!("refused by {} ({what}), {retry}; {}", rule.name, reply_text(outcome.reply()))
}

/// Response that the client receives.
fn reply_text(reply: Option<&Reply>) -> String {
    match reply {
        None => "response 429".to_owned(),
        Some(Reply::Refuse { status, .. }) => format!("response {status}"),
        Some(Reply::Degrade { status, .. }) => format!("substitute response {status}"),
        Some(Reply::Redirect { status, location }) => format!("redirect {status} to {location}"),
    }
}

/// The flag that makes a request match a rule of another direction.
fn direction_flag(rule: &Rule, request: &Request<'_>) -> &'static str {
    match rule.direction {
        direction if direction == request.direction => "",
        Direction::Inbound => "",
        Direction::Outbound => " (--outbound)",
        Direction::Descriptor => " (--descriptor)",
    }
}
