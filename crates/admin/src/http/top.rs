//! The heaviest and the most refused keys.

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::{TopKeys, TopList};

use super::problem::{Kind, Problem, shown};
use super::query::Query;
use super::reply::{self, Reply};
use super::rules;

/// How many keys are told of each rule unless told otherwise, and at most.
const MOST: (usize, usize) = (20, 1_000);

#[derive(Serialize)]
struct All {
    rules: Vec<OfRule>,
}

#[derive(Serialize)]
struct OfRule {
    rule: String,
    over_s: f64,
    asked: List,
    refused: List,
}

#[derive(Serialize)]
struct List {
    total: u64,
    error: u64,
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    key: String,
    count: u64,
}

/// Of one rule, or of all that have a key.
pub(super) fn get(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let most = most(query.get("most"))?;
    let names: Vec<String> = sluice.counts().into_iter().map(|counts| counts.rule).collect();
    let names = match query.get("rule") {
        None => names,
        Some(rule) if names.iter().any(|name| name == rule) => vec![rule.to_owned()],
        Some(rule) => return Err(rules::unknown(sluice, rule)),
    };
    let of_rule = |rule: String| Some(OfRule::new(sluice.top_keys(&rule)?, rule, most));
    Ok(reply::ok(&All { rules: names.into_iter().filter_map(of_rule).collect() }))
}

fn most(text: Option<&str>) -> Result<usize, Problem> {
    let (usual, largest) = MOST;
    let Some(text) = text else { return Ok(usual) };
    match text.parse() {
        Ok(most) if (1..=largest).contains(&most) => Ok(most),
        _ => Err(Problem::new(Kind::Invalid, format!("`most` is {}: say 1 to {largest}", shown(text)))),
    }
}

impl OfRule {
    fn new(top: TopKeys, rule: String, most: usize) -> Self {
        let TopKeys { over, asked, refused } = top;
        Self { rule, over_s: over.as_secs_f64(), asked: List::new(asked, most), refused: List::new(refused, most) }
    }
}

impl List {
    fn new(list: TopList, most: usize) -> Self {
        let TopList { total, error, keys } = list;
        let keys = keys.into_iter().take(most).map(|it| Key { key: it.key, count: it.count });
        Self { total, error, keys: keys.collect() }
    }
}
