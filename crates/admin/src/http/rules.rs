//! `/v1/rules`: rules in force with their counters.

use serde::Serialize;
use sluicegate_engine::Limit;
use sluicegate_engine::Sluice;
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::rule::{Adaptive, Attribute, Ban, Direction, KeyPart, Mode, Priority, Rule, Scope};
use sluicegate_engine::sluice::RuleCounts;
use sluicegate_http_adapter::api::nearest;

use super::problem::{Problem, ProblemKind, quote_input};
use super::reply::{self, Reply};

#[derive(Serialize)]
struct RuleList {
    rules: Vec<RuleView>,
}

#[derive(Serialize)]
struct RuleView {
    name: String,
    direction: &'static str,
    r#match: Option<String>,
    when: Option<String>,
    key: Vec<String>,
    limits: Vec<String>,
    adaptive: Option<String>,
    adaptive_kind: Option<&'static str>,
    mode: &'static str,
    scope: &'static str,
    priority: &'static str,
    ban: Option<BanRuleView>,
    counts: RuleCountsView,
    waiting: u64,
    permits: Option<u64>,
    used: Option<f64>,
}

#[derive(Serialize)]
struct RuleCountsView {
    admitted: u64,
    refused: u64,
    banned: u64,
    degraded: u64,
    bytes: u64,
    waited: u64,
    evicted: u64,
}

/// Ban settings of a rule: after this many refusals within a time, a key is banned for a time.
#[derive(Serialize)]
struct BanRuleView {
    after: u32,
    within_s: f64,
    for_s: f64,
}

#[derive(Serialize)]
struct ShadowRuleList {
    rules: Vec<ShadowRuleView>,
}

#[derive(Serialize)]
struct ShadowRuleView {
    name: String,
    would_admit: u64,
    would_refuse: u64,
}

/// Lists all rules.
pub(super) fn list(sluice: &Sluice) -> Reply {
    reply::ok(&RuleList { rules: with_counts(sluice).map(|(rule, counts)| RuleView::new(&rule, &counts)).collect() })
}

/// Returns the rule of this name.
pub(super) fn get(sluice: &Sluice, name: &str) -> Result<Reply, Problem> {
    let found = with_counts(sluice).find(|(rule, _)| rule.name == name);
    found.map(|(rule, counts)| reply::ok(&RuleView::new(&rule, &counts))).ok_or_else(|| unknown(sluice, name))
}

/// Lists shadow rules with their hypothetical decisions.
pub(super) fn shadow(sluice: &Sluice) -> Reply {
    let shadows = with_counts(sluice).filter(|(rule, _)| rule.mode == Mode::Shadow);
    let view = |(rule, counts): (Rule, RuleCounts)| ShadowRuleView {
        name: rule.name,
        would_admit: counts.admitted,
        would_refuse: counts.refused + counts.banned,
    };
    reply::ok(&ShadowRuleList { rules: shadows.map(view).collect() })
}

/// Rules with their counters. Rules that are being replaced may be missing.
pub(super) fn with_counts(sluice: &Sluice) -> impl Iterator<Item = (Rule, RuleCounts)> {
    let pairs = sluice.rules().into_iter().zip(sluice.counts());
    pairs.filter(|(rule, counts)| rule.name == counts.rule)
}

/// Problem for an unknown rule name, with a suggestion.
pub(super) fn unknown(sluice: &Sluice, name: &str) -> Problem {
    let counts = sluice.counts();
    let remedy = match nearest(name, counts.iter().map(|rule| rule.rule.as_str())) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "GET /v1/rules lists all rules".to_owned(),
    };
    Problem::new(ProblemKind::UnknownRule, format!("unknown rule {}: {remedy}", quote_input(name)))
}

impl RuleView {
    fn new(rule: &Rule, counts: &RuleCounts) -> Self {
        let target = rule.target.to_string();
        Self {
            name: rule.name.clone(),
            direction: direction(rule.direction),
            r#match: (target != "*").then_some(target),
            when: rule.when.as_ref().map(ToString::to_string),
            key: rule.key.iter().map(format_key_part).collect(),
            limits: rule.limits.iter().map(format_limit).collect(),
            adaptive: rule.adaptive.as_ref().map(ToString::to_string),
            adaptive_kind: rule.adaptive.as_ref().map(adaptive_kind),
            mode: mode(rule),
            scope: scope(rule),
            priority: match rule.priority {
                Priority::Background => "background",
                Priority::Normal => "normal",
                Priority::Vip => "vip",
            },
            ban: rule.ban.map(BanRuleView::from),
            counts: RuleCountsView {
                admitted: counts.admitted,
                refused: counts.refused,
                banned: counts.banned,
                degraded: counts.degraded,
                bytes: counts.bytes,
                waited: counts.waited,
                evicted: counts.early_evictions,
            },
            waiting: counts.waiting as u64,
            permits: counts.permits,
            used: used_ratio(counts),
        }
    }
}

/// Used share of the tightest limit, rounded to four digits.
pub(crate) fn used_ratio(counts: &RuleCounts) -> Option<f64> {
    counts.used.filter(|used| used.is_finite()).map(|used| (used * 10_000.0).round() / 10_000.0)
}

impl From<Ban> for BanRuleView {
    fn from(ban: Ban) -> Self {
        let Ban { after, within, duration } = ban;
        Self { after, within_s: within.as_secs_f64(), for_s: duration.as_secs_f64() }
    }
}

/// Name of a direction.
pub(super) const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Inbound => "inbound",
        Direction::Outbound => "outbound",
        Direction::Descriptor => "descriptor",
    }
}

/// Name of the kind of overload protection.
pub(super) const fn adaptive_kind(adaptive: &Adaptive) -> &'static str {
    match adaptive {
        Adaptive::Ceiling(_) => "ceiling",
        Adaptive::Auto(_) => "auto",
        Adaptive::Cpu(_) => "cpu",
    }
}

/// Name of the rule's mode.
pub(super) const fn mode(rule: &Rule) -> &'static str {
    match rule.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// Name of the rule's scope.
pub(super) const fn scope(rule: &Rule) -> &'static str {
    match rule.scope {
        Scope::Local => "local",
        Scope::Cluster { .. } => "cluster",
    }
}

/// Formats a limit in rule file syntax, in the short form if possible.
pub(super) fn format_limit(limit: &Limit) -> String {
    match limit {
        Limit::SlidingWindow(it) if it.cells() == DEFAULT_CELLS => {
            format!("{}/{}", it.limit(), HumanDuration(it.window()))
        }
        other => other.to_string(),
    }
}

fn format_key_part(part: &KeyPart) -> String {
    let default = KeyPart::from(part.attribute.clone());
    let (v4, v6) = (part.ipv4_prefix, part.ipv6_prefix);
    match part.attribute == Attribute::ClientIp && *part != default {
        true => format!("{} (IPv4/{v4}, IPv6/{v6})", part.attribute),
        false => part.attribute.to_string(),
    }
}
