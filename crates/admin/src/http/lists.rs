//! The allow list and the deny list.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sluicegate_cluster::{ClusterStore, ListKind};
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Expr;

use super::fields::Lasting;
use super::problem::{Kind, Problem};
use super::query::Query;
use super::reply::{self, Reply};
use super::route;
use crate::added::{self, AddError, AddedLists, Entry, Stands};

/// The longest condition, in bytes.
const LONGEST: usize = 16 << 10;

/// An entry that is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToAdd {
    condition: String,
    r#for: Option<Lasting>,
}

#[derive(Serialize)]
struct All {
    allow: Vec<Shown>,
    deny: Vec<Shown>,
    hits: Hits,
}

#[derive(Serialize)]
struct Hits {
    allow: u64,
    deny: u64,
}

#[derive(Serialize)]
struct Shown {
    condition: String,
    source: &'static str,
    expires_in_s: Option<f64>,
}

impl From<Entry> for Shown {
    fn from(entry: Entry) -> Self {
        let source = match entry.stands {
            Stands::File => "file",
            Stands::Here => "added",
            Stands::Fleet => "fleet",
        };
        Self { condition: entry.condition, source, expires_in_s: entry.expires_in.as_ref().map(Duration::as_secs_f64) }
    }
}

/// What entries are added to and removed from.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) sluice: &'a Sluice,
    pub(super) store: Option<&'a ClusterStore>,
    pub(super) added: &'a AddedLists,
}

impl Kept<'_> {
    /// Both lists.
    pub(super) fn all(self) -> Reply {
        let counts = self.sluice.list_counts();
        let shown = |list| {
            let entries = self.added.entries(self.sluice, self.store.is_some(), list);
            entries.into_iter().map(Shown::from).collect()
        };
        let hits = Hits { allow: counts.allowed, deny: counts.denied };
        reply::ok(&All { allow: shown(ListKind::Allow), deny: shown(ListKind::Deny), hits })
    }

    /// Adds an entry.
    pub(super) fn add(self, list: &str, asked: &ToAdd) -> Result<Reply, Problem> {
        let list = named(list)?;
        let condition = bounded(&asked.condition)?;
        let lasting = asked.r#for.map(|lasting| lasting.0);
        let added = self.added.add(self.sluice, self.store, list, condition, lasting);
        Ok(reply::json(StatusCode::CREATED, &Shown::from(added.map_err(wrong)?)))
    }

    /// Removes an entry that was added.
    pub(super) fn remove(self, list: &str, query: &Query<'_>) -> Result<Reply, Problem> {
        let list = named(list)?;
        let condition = bounded(query.must("condition")?)?;
        let removed = self.added.remove(self.sluice, self.store, list, condition).map_err(wrong)?;
        let (own, _) = self.sluice.lists();
        if !removed && Expr::parse(condition).is_ok_and(|it| added::of(&own, list).contains(&it)) {
            let detail = "it stands in the rule file: take it out there";
            return Err(Problem::new(Kind::Conflict, detail));
        }
        Ok(reply::ok(&json!({ "removed": removed })))
    }
}

fn named(list: &str) -> Result<ListKind, Problem> {
    match list {
        "allow" => Ok(ListKind::Allow),
        "deny" => Ok(ListKind::Deny),
        other => Err(route::unknown(&format!("/v1/lists/{other}"))),
    }
}

fn bounded(condition: &str) -> Result<&str, Problem> {
    let detail = || format!("the condition has more than {LONGEST} bytes: write several");
    if condition.len() <= LONGEST { Ok(condition) } else { Err(Problem::new(Kind::Unprocessable, detail())) }
}

fn wrong(error: AddError) -> Problem {
    let detail = error.to_string();
    match error {
        AddError::Condition(_) => Problem::new(Kind::Unprocessable, detail).at("/condition"),
        AddError::Full => Problem::new(Kind::Conflict, detail),
        AddError::Rules(_) => Problem::new(Kind::Unavailable, detail),
    }
}
