//! `sluicegate explain`: what would happen to one request, and why.

use std::fmt::Write;
use std::time::Duration;

use sluicegate_admin::mismatch;
use sluicegate_config::Settings;
use sluicegate_config::ratelimit::Kind;
use sluicegate_engine::Verdict;
use sluicegate_engine::rule::{ListHit, Reply, Request, Rule, Side};
use sluicegate_engine::sluice::{Cause, Explanation, Outcome, RuleExplanation};
use sluicegate_server::Domains;

use crate::answer::{Answer, Look};
use crate::args::Explain;
use crate::describe::{self, span};
use crate::playback::Playback;
use crate::question::Question;
use crate::rules::{self, Read};
use crate::table::{Rows, draw};

pub(crate) fn run(args: &Explain, look: Look) -> Answer {
    match explained(args, look) {
        Ok(text) => Answer::done(text),
        Err(answer) => answer,
    }
}

/// How the request fares in the end.
enum Fate {
    /// Decided at once.
    Decided(Outcome),
    /// Waited in line for so long, then decided.
    Waited(Duration, Outcome),
    /// Waits for others to finish, which no clock tells.
    Waits,
}

fn explained(args: &Explain, look: Look) -> Result<String, Answer> {
    let Read { loaded, domains, .. } = rules::load(&args.file, look)?;
    let mut settings = loaded.settings;
    let mut question = Question::from_args(args);
    if let Some(domains) = domains
        && let Some(sure) = by_folder(&domains, &mut question, &mut settings)
    {
        return Ok(format!("{}\n\n{sure}\n", question.title()));
    }
    let (sluice, clock) = rules::enforce(&settings)?;
    let request = question.request();
    let mut playback = Playback::new(sluice, clock);

    let last = args.repeat as usize;
    // What came before is still under way: its permits are out.
    let _under_way: Vec<_> = (1..last).map(|number| playback.ask(number, &request)).collect();
    let explanation = playback.sluice.explain(&request);
    let fate = fate(&mut playback, last, &request);
    Ok(page(&settings, &question, args.repeat, &explanation, &fate))
}

/// Of envoyproxy/ratelimit's files at most one limit has a say in a descriptor: the others are left out. Answers what
/// is sure without asking any.
fn by_folder(domains: &Domains, question: &mut Question, settings: &mut Settings) -> Option<&'static str> {
    let domain = question.domain().filter(|domain| domains.has(domain))?.to_owned();
    let found = domains.find(&domain, question.entries());
    let kind = found.as_ref().map(|found| (found.limit.kind, found.limit.shadow));
    let (name, key) = found.map(|found| (found.limit.rule_name.clone(), found.key)).unwrap_or_default();
    match kind {
        None => Some("No limit of the folder applies: allowed."),
        Some((Kind::Unlimited, _)) => Some("The limit that applies is `unlimited`: allowed."),
        Some((Kind::Blocked, false)) => Some("The limit that applies is zero: refused for ever."),
        Some((Kind::Blocked, true)) => {
            Some("The limit that applies is zero, but in shadow mode: allowed, and counted as `would_refuse`.")
        }
        Some((Kind::Counted, _)) => {
            settings.rules.retain(|rule| rule.name == name);
            if !key.is_empty() {
                question.insert("descriptor", &key);
            }
            None
        }
    }
}

fn fate(playback: &mut Playback, number: usize, request: &Request<'_>) -> Fate {
    if let Some(outcome) = playback.ask(number, request) {
        return Fate::Decided(outcome);
    }
    // Everybody who leaves the line is kept under way too.
    let mut under_way = Vec::new();
    loop {
        let turns = playback.pass_until_next_turn();
        if turns.is_empty() {
            return Fate::Waits;
        }
        for turn in turns {
            if turn.number == number {
                return match turn.outcome.verdict() {
                    // A pause is told by the verdict itself; what came before it was the line.
                    Verdict::Wait(pause) if pause >= turn.at => Fate::Decided(turn.outcome),
                    Verdict::Wait(pause) => Fate::Waited(turn.at - pause, turn.outcome),
                    _ => Fate::Waited(turn.at, turn.outcome),
                };
            }
            under_way.push(turn.outcome);
        }
    }
}

fn page(settings: &Settings, question: &Question, repeat: u32, explanation: &Explanation, fate: &Fate) -> String {
    let request = question.request();
    let mut page = question.title();
    if let Some(ip) = request.canonical_ip() {
        let _ = write!(page, " from {ip}");
    }
    if repeat > 1 {
        let _ = write!(page, ", number {repeat} of {repeat} at the same instant");
    }
    page.push_str("\n\n");

    let (applying, keyless): (Vec<&RuleExplanation>, _) = explanation.rules.iter().partition(|it| it.key.is_some());
    if applying.is_empty() {
        page.push_str("No rule applies.\n");
    } else {
        let rows = applying.iter().map(|it| row(it, fate)).collect();
        page.push_str(&draw(Rows::Plain, ["rule", "key", "cost", "decided by", "left", "would say"], rows));
    }

    let mut others: Vec<[String; 2]> = Vec::new();
    for rule in &settings.rules {
        if applying.iter().any(|it| it.rule.name == rule.name) {
            continue;
        }
        let reason = match keyless.iter().any(|it| it.rule.name == rule.name) {
            true => format!("matches, but the request has no {}", mismatch::missing_key(rule, &request)),
            false => mismatch::reason(rule, &request).unwrap_or_default() + flag(rule, &request),
        };
        others.push([rule.name.clone(), reason]);
    }
    if !others.is_empty() {
        page.push('\n');
        page.push_str(&draw(Rows::Plain, ["does not apply", "because"], others));
    }
    let _ = writeln!(page, "\nTogether: {}.", together(settings, explanation, fate));
    page
}

fn row(it: &RuleExplanation, fate: &Fate) -> [String; 6] {
    let key = match it.key.as_deref() {
        None | Some("") => "-".to_owned(),
        Some(key) => key.to_owned(),
    };
    if describe::is_paced(&it.rule) {
        let says = "allowed: its answer is slowed down".to_owned();
        return [it.rule.name.clone(), key, "-".to_owned(), describe::limits(&it.rule), String::new(), says];
    }
    let (by, left, mut says) = match it.decision {
        Some(decision) => {
            let by = it.rule.limits.get(decision.limit).map(ToString::to_string).unwrap_or_default();
            let status = after(&it.rule, fate).unwrap_or(decision.status);
            (by, format!("{} of {}", status.remaining, status.limit), verdict(decision.verdict))
        }
        None if it.rule.is_metering() => {
            let limits: Vec<String> = it.rule.limits.iter().map(ToString::to_string).collect();
            (limits.join(", "), String::new(), "allowed: its bytes are paced".to_owned())
        }
        None if let Some(adaptive) = &it.rule.adaptive => {
            (adaptive.to_string(), String::new(), "allowed: there is no strain".to_owned())
        }
        None => ("no limit of its own".to_owned(), String::new(), "nothing".to_owned()),
    };
    if let Some(remaining) = it.banned {
        says = format!("refused: banned for another {}", span(remaining));
    }
    if it.rule.mode == sluicegate_engine::rule::Mode::Shadow {
        says.push_str(" (shadow: only counted)");
    }
    [it.rule.name.clone(), key, it.cost.to_string(), by, left, says]
}

/// What is left of the rule's deciding limit after the request, if it came to that.
fn after(rule: &Rule, fate: &Fate) -> Option<sluicegate_engine::algorithm::Status> {
    let Fate::Decided(outcome) = fate else { return None };
    let said = outcome.decisions().find(|(it, _)| it.name == rule.name);
    said.map(|(_, said)| said.decision.status)
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Wait(pause) => format!("allowed after a pause of {}", span(pause)),
        Verdict::Denied { retry_after: Some(wait) } => format!("refused: again in {}", span(wait)),
        Verdict::Denied { retry_after: None } => "refused: again when others have finished".to_owned(),
        Verdict::Never => "refused for ever: it costs more than the limit".to_owned(),
    }
}

fn together(settings: &Settings, explanation: &Explanation, fate: &Fate) -> String {
    match explanation.list {
        Some(ListHit::Allow(entry)) => {
            let text = settings.lists.allow.get(entry).map_or("", |entry| &entry.text);
            return format!("allowed by the allow list, whatever the rules say: {text}");
        }
        Some(ListHit::Deny(entry)) => {
            let text = settings.lists.deny.get(entry).map_or("", |entry| &entry.text);
            return format!("refused by the deny list, whatever the rules say: {text}");
        }
        None => {}
    }
    match fate {
        Fate::Decided(outcome) => ending(outcome),
        Fate::Waited(time, outcome) => format!("waits in line for {}, then {}", span(*time), ending(outcome)),
        Fate::Waits => "waits in line until others have finished".to_owned(),
    }
}

fn ending(outcome: &Outcome) -> String {
    let Some(rule) = outcome.rule() else { return verdict(outcome.verdict()) };
    let what = match (outcome.cause(), outcome.limit()) {
        (Cause::Ban(_), _) => "banned".to_owned(),
        (Cause::Strain(_), _) => "the strain on the process".to_owned(),
        (_, Some(limit)) => limit.to_string(),
        _ => "its limits".to_owned(),
    };
    let again = match outcome.verdict() {
        Verdict::Denied { retry_after: Some(wait) } => format!("again in {}", span(wait)),
        Verdict::Never => "for ever: it costs more than the limit".to_owned(),
        _ => "again when others have finished".to_owned(),
    };
    format!("refused by {} ({what}), {again}; {}", rule.name, reply(outcome.reply()))
}

/// What the client is told.
fn reply(reply: Option<&Reply>) -> String {
    match reply {
        None => "answered with 429".to_owned(),
        Some(Reply::Refuse { status, .. }) => format!("answered with {status}"),
        Some(Reply::Degrade { status, .. }) => format!("answered with substitute data, status {status}"),
        Some(Reply::Redirect { status, location }) => format!("sent to {location} with {status}"),
    }
}

/// The flag by which a request comes to a rule that is for another side.
fn flag(rule: &Rule, request: &Request<'_>) -> &'static str {
    match rule.side {
        side if side == request.side => "",
        Side::Inbound => "",
        Side::Outbound => " (--outbound)",
        Side::Descriptor => " (--descriptor)",
    }
}
