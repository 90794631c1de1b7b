//! `GET /v1/top`: keys with the most requests and the most refusals.

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::{TopKeys, TopList};
use utoipa::ToSchema;

use super::problem::{Problem, ProblemKind, quote_input};
use super::query::Query;
use super::reply::{self, Reply};
use super::rules;

/// Default and maximum number of keys per rule.
pub(super) const DEFAULT_AND_MAX_KEYS: (usize, usize) = (20, 1_000);

/// Top keys of the rules.
#[derive(Serialize, ToSchema)]
#[schema(as = Top)]
pub(super) struct TopKeysList {
    rules: Vec<RuleTopKeysView>,
}

/// Top keys of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleTopKeys)]
struct RuleTopKeysView {
    rule: String,
    #[schema(minimum = 0)]
    over_s: f64,
    checked: TopListView,
    refused: TopListView,
}

/// Keys by descending count.
#[derive(Serialize, ToSchema)]
#[schema(as = TopList)]
struct TopListView {
    total: u64,
    /// The true count of a key is between `count` and `count + error`.
    error: u64,
    keys: Vec<KeyCount>,
}

/// Count of a key.
#[derive(Serialize, ToSchema)]
struct KeyCount {
    key: String,
    count: u64,
}

/// Lists the top keys of one rule, or of all rules with a key.
pub(super) fn get(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let max_keys = parse_max_keys(query.get("limit"))?;
    let names: Vec<String> = sluice.counts().into_iter().map(|counts| counts.rule).collect();
    let names = match query.get("rule") {
        None => names,
        Some(rule) if names.iter().any(|name| name == rule) => vec![rule.to_owned()],
        Some(rule) => return Err(rules::unknown(sluice, rule)),
    };
    let top_of = |rule: String| Some(RuleTopKeysView::new(sluice.top_keys(&rule)?, rule, max_keys));
    Ok(reply::ok(&TopKeysList { rules: names.into_iter().filter_map(top_of).collect() }))
}

fn parse_max_keys(text: Option<&str>) -> Result<usize, Problem> {
    let (default, max) = DEFAULT_AND_MAX_KEYS;
    let Some(text) = text else { return Ok(default) };
    match text.parse() {
        Ok(keys) if (1..=max).contains(&keys) => Ok(keys),
        _ => Err(Problem::new(ProblemKind::Invalid, format!("invalid `limit` {}: use 1 to {max}", quote_input(text)))),
    }
}

impl RuleTopKeysView {
    fn new(top: TopKeys, rule: String, max_keys: usize) -> Self {
        let TopKeys { over, requested, refused } = top;
        Self {
            rule,
            over_s: over.as_secs_f64(),
            checked: TopListView::new(requested, max_keys),
            refused: TopListView::new(refused, max_keys),
        }
    }
}

impl TopListView {
    fn new(list: TopList, max_keys: usize) -> Self {
        let TopList { total, error, keys } = list;
        let keys = keys.into_iter().take(max_keys).map(|it| KeyCount { key: it.key, count: it.count });
        Self { total, error, keys: keys.collect() }
    }
}
