//! The rules in force, with what they have decided.

use serde::Serialize;
use sluicegate_engine::Limit;
use sluicegate_engine::Sluice;
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::rule::{Attribute, Ban, KeyPart, Mode, Priority, Rule, Scope, Side};
use sluicegate_engine::sluice::RuleCounts;
use sluicegate_http::call::nearest;

use super::problem::{Kind, Problem, shown};
use super::reply::{self, Reply};

#[derive(Serialize)]
struct All {
    rules: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    side: &'static str,
    r#match: Option<String>,
    when: Option<String>,
    key: Vec<String>,
    limits: Vec<String>,
    adaptive: Option<String>,
    mode: &'static str,
    scope: &'static str,
    priority: &'static str,
    ban: Option<String>,
    counts: Counts,
    waiting: u64,
    permits: Option<u64>,
    used: Option<f64>,
}

#[derive(Serialize)]
struct Counts {
    admitted: u64,
    refused: u64,
    banned: u64,
    degraded: u64,
    bytes: u64,
    waited: u64,
    forgotten_early: u64,
}

#[derive(Serialize)]
struct Shadows {
    rules: Vec<Shadow>,
}

#[derive(Serialize)]
struct Shadow {
    name: String,
    would_admit: u64,
    would_refuse: u64,
}

/// All of them.
pub(super) fn all(sluice: &Sluice) -> Reply {
    reply::ok(&All { rules: with_counts(sluice).map(|(rule, counts)| Shown::new(&rule, &counts)).collect() })
}

/// The one of this name.
pub(super) fn one(sluice: &Sluice, name: &str) -> Result<Reply, Problem> {
    let found = with_counts(sluice).find(|(rule, _)| rule.name == name);
    found.map(|(rule, counts)| reply::ok(&Shown::new(&rule, &counts))).ok_or_else(|| unknown(sluice, name))
}

/// What rules that only count would have done.
pub(super) fn shadow(sluice: &Sluice) -> Reply {
    let shadows = with_counts(sluice).filter(|(rule, _)| rule.mode == Mode::Shadow);
    let shown = |(rule, counts): (Rule, RuleCounts)| Shadow {
        name: rule.name,
        would_admit: counts.admitted,
        would_refuse: counts.refused + counts.banned,
    };
    reply::ok(&Shadows { rules: shadows.map(shown).collect() })
}

/// Each rule with what it has counted. Rules that are exchanged at this very moment may be missing.
pub(super) fn with_counts(sluice: &Sluice) -> impl Iterator<Item = (Rule, RuleCounts)> {
    let together = sluice.rules().into_iter().zip(sluice.counts());
    together.filter(|(rule, counts)| rule.name == counts.rule)
}

/// That there is no rule of this name, with the one that was probably meant.
pub(super) fn unknown(sluice: &Sluice, name: &str) -> Problem {
    let counts = sluice.counts();
    let remedy = match nearest(name, counts.iter().map(|rule| rule.rule.as_str())) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "see /v1/rules for what there is".to_owned(),
    };
    Problem::new(Kind::UnknownRule, format!("there is no rule {}: {remedy}", shown(name)))
}

impl Shown {
    fn new(rule: &Rule, counts: &RuleCounts) -> Self {
        let target = rule.target.to_string();
        Self {
            name: rule.name.clone(),
            side: match rule.side {
                Side::Inbound => "inbound",
                Side::Outbound => "outbound",
                Side::Descriptor => "descriptor",
            },
            r#match: (target != "*").then_some(target),
            when: rule.when.as_ref().map(ToString::to_string),
            key: rule.key.iter().map(key_part).collect(),
            limits: rule.limits.iter().map(limit).collect(),
            adaptive: rule.adaptive.as_ref().map(ToString::to_string),
            mode: mode(rule),
            scope: scope(rule),
            priority: match rule.priority {
                Priority::Background => "background",
                Priority::Normal => "normal",
                Priority::Vip => "vip",
            },
            ban: rule.ban.map(ban),
            counts: Counts {
                admitted: counts.admitted,
                refused: counts.refused,
                banned: counts.banned,
                degraded: counts.degraded,
                bytes: counts.bytes,
                waited: counts.waited,
                forgotten_early: counts.forgotten_early,
            },
            waiting: counts.waiting as u64,
            permits: counts.permits,
            used: used_of(counts),
        }
    }
}

/// The share of the tightest limit that is used, to four digits.
pub(crate) fn used_of(counts: &RuleCounts) -> Option<f64> {
    counts.used.filter(|used| used.is_finite()).map(|used| (used * 10_000.0).round() / 10_000.0)
}

/// Whether a rule acts.
pub(super) const fn mode(rule: &Rule) -> &'static str {
    match rule.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// Who shares its count.
pub(super) const fn scope(rule: &Rule) -> &'static str {
    match rule.scope {
        Scope::Local => "local",
        Scope::Cluster { .. } => "cluster",
    }
}

/// A limit as a rule file may have it: shortly, if it is what the short form means.
pub(super) fn limit(limit: &Limit) -> String {
    match limit {
        Limit::SlidingWindow(it) if it.cells() == DEFAULT_CELLS => format!("{}/{}", it.limit(), Span(it.window())),
        other => other.to_string(),
    }
}

fn key_part(part: &KeyPart) -> String {
    let usual = KeyPart::from(part.attribute.clone());
    let (v4, v6) = (part.ipv4_prefix, part.ipv6_prefix);
    match part.attribute == Attribute::ClientIp && *part != usual {
        true => format!("{} (IPv4/{v4}, IPv6/{v6})", part.attribute),
        false => part.attribute.to_string(),
    }
}

fn ban(ban: Ban) -> String {
    format!("for {} after {} refusals in {}", Span(ban.lasting), ban.after, Span(ban.within))
}
