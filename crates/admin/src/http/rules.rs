//! `/v1/rules`: rules in force with their counters.

use serde::Serialize;
use sluicegate_engine::Limit;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{Adaptive, Attribute, Ban, Direction, KeyPart, Mode, Priority, Rule, Scope};
use sluicegate_engine::sluice::RuleCounts;
use sluicegate_engine::spelling::nearest;
use utoipa::ToSchema;

use super::problem::{Problem, ProblemKind, quote_input};
use super::reply::{self, Reply};

/// Active rules.
#[derive(Serialize, ToSchema)]
#[schema(as = Rules)]
pub(super) struct RuleList {
    rules: Vec<RuleView>,
}

/// An active rule with its counters.
#[derive(Serialize, ToSchema)]
#[schema(as = Rule)]
pub(super) struct RuleView {
    name: String,
    direction: DirectionName,
    r#match: Option<String>,
    when: Option<String>,
    key: Vec<String>,
    limits: Vec<String>,
    /// Overload protection of the rule, as text.
    adaptive: Option<String>,
    adaptive_kind: Option<AdaptiveKind>,
    mode: ModeName,
    scope: ScopeName,
    priority: PriorityName,
    ban: Option<BanRuleView>,
    counts: RuleCountsView,
    waiting: u64,
    permits: Option<u64>,
    /// Used share of the tightest limit; null for rules with a key.
    #[schema(minimum = 0, maximum = 1)]
    used: Option<f64>,
}

/// Decision counters of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = Counts)]
struct RuleCountsView {
    admitted: u64,
    refused: u64,
    banned: u64,
    degraded: u64,
    bytes: u64,
    waited: u64,
    /// Keys evicted for lack of memory while their quota was partly used.
    evicted: u64,
}

/// A key is banned for `for_s` after `after` refusals within `within_s`.
#[derive(Serialize, ToSchema)]
#[schema(as = BanSettings)]
struct BanRuleView {
    after: u32,
    #[schema(minimum = 0)]
    within_s: f64,
    #[schema(minimum = 0)]
    for_s: f64,
}

/// Rules in shadow mode.
#[derive(Serialize, ToSchema)]
#[schema(as = Shadow)]
pub(super) struct ShadowRuleList {
    rules: Vec<ShadowRuleView>,
}

/// Decisions that a shadow rule would have made.
#[derive(Serialize, ToSchema)]
#[schema(as = ShadowRule)]
struct ShadowRuleView {
    name: String,
    would_admit: u64,
    would_refuse: u64,
}

/// Direction of the requests of a rule.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Direction)]
pub(super) enum DirectionName {
    Inbound,
    Outbound,
    Descriptor,
}

/// Kind of overload protection.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum AdaptiveKind {
    Ceiling,
    Auto,
    Cpu,
}

/// Mode of a rule.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Mode)]
pub(super) enum ModeName {
    Enforce,
    Shadow,
}

/// Scope of a rule: this process or the cluster.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Scope)]
pub(super) enum ScopeName {
    Local,
    Cluster,
}

/// Priority of the requests of a rule.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Priority)]
enum PriorityName {
    Background,
    Normal,
    Vip,
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
            direction: rule.direction.into(),
            r#match: (target != "*").then_some(target),
            when: rule.when.as_ref().map(ToString::to_string),
            key: rule.key.iter().map(format_key_part).collect(),
            limits: rule.limits.iter().map(Limit::short_notation).collect(),
            adaptive: rule.adaptive.as_ref().map(ToString::to_string),
            adaptive_kind: rule.adaptive.as_ref().map(AdaptiveKind::from),
            mode: rule.mode.into(),
            scope: (&rule.scope).into(),
            priority: match rule.priority {
                Priority::Background => PriorityName::Background,
                Priority::Normal => PriorityName::Normal,
                Priority::Vip => PriorityName::Vip,
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

impl From<Direction> for DirectionName {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Inbound => Self::Inbound,
            Direction::Outbound => Self::Outbound,
            Direction::Descriptor => Self::Descriptor,
        }
    }
}

impl DirectionName {
    /// Name as in rule files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
            Self::Descriptor => "descriptor",
        }
    }
}

impl From<&Adaptive> for AdaptiveKind {
    fn from(adaptive: &Adaptive) -> Self {
        match adaptive {
            Adaptive::Ceiling(_) => Self::Ceiling,
            Adaptive::Auto(_) => Self::Auto,
            Adaptive::Cpu(_) => Self::Cpu,
        }
    }
}

impl From<Mode> for ModeName {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Self::Enforce,
            Mode::Shadow => Self::Shadow,
        }
    }
}

impl From<&Scope> for ScopeName {
    fn from(scope: &Scope) -> Self {
        match scope {
            Scope::Local => Self::Local,
            Scope::Cluster { .. } => Self::Cluster,
        }
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
