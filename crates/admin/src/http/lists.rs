//! `/v1/lists`: allow list and deny list.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use sluicegate_cluster::{ClusterStore, ListKind};
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Expr;
use utoipa::ToSchema;

use super::bans::RemovedView;
use super::fields::NonZeroDuration;
use super::problem::{Problem, ProblemKind};
use super::query::Query;
use super::reply::{self, Reply};
use super::route;
use crate::runtime_lists::{self, EntrySource, ListEntry, RuntimeListError, RuntimeLists};

/// Maximum length of a condition, in bytes.
const MAX_CONDITION_BYTES: usize = 16 << 10;

/// Request to add an entry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ListEntryRequest)]
pub(super) struct AddEntryRequest {
    /// Condition as in the rule file: `client.ip in 203.0.113.0/24`.
    condition: String,
    /// Duration: `10m`. Default: unlimited.
    r#for: Option<NonZeroDuration>,
}

/// Allow list and deny list.
#[derive(Serialize, ToSchema)]
#[schema(as = Lists)]
pub(super) struct ListsView {
    allow: Vec<ListEntryView>,
    deny: Vec<ListEntryView>,
    hits: ListHitCounts,
}

/// Requests that matched a list.
#[derive(Serialize, ToSchema)]
struct ListHitCounts {
    allow: u64,
    deny: u64,
}

/// An entry of a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListEntry)]
pub(super) struct ListEntryView {
    condition: String,
    source: EntrySourceName,
    #[schema(minimum = 0)]
    expires_in_s: Option<f64>,
}

/// Source of an entry.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = EntrySource)]
enum EntrySourceName {
    File,
    Runtime,
    Cluster,
}

/// `allow` or `deny`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ListName {
    Allow,
    Deny,
}

impl From<ListEntry> for ListEntryView {
    fn from(entry: ListEntry) -> Self {
        let source = match entry.source {
            EntrySource::File => EntrySourceName::File,
            EntrySource::Process => EntrySourceName::Runtime,
            EntrySource::Cluster => EntrySourceName::Cluster,
        };
        Self { condition: entry.condition, source, expires_in_s: entry.expires_in.as_ref().map(Duration::as_secs_f64) }
    }
}

/// Handler for both lists.
#[derive(Clone, Copy)]
pub(super) struct ListsHandler<'a> {
    pub(super) sluice: &'a Sluice,
    pub(super) store: Option<&'a ClusterStore>,
    pub(super) runtime_lists: &'a RuntimeLists,
}

impl ListsHandler<'_> {
    /// Lists the entries of both lists.
    pub(super) fn list(self) -> Reply {
        let counts = self.sluice.list_counts();
        let views = |list| {
            let entries = self.runtime_lists.entries(self.sluice, self.store.is_some(), list);
            entries.into_iter().map(ListEntryView::from).collect()
        };
        let hits = ListHitCounts { allow: counts.allowed, deny: counts.denied };
        reply::ok(&ListsView { allow: views(ListKind::Allow), deny: views(ListKind::Deny), hits })
    }

    /// Adds an entry.
    pub(super) fn add(self, list: &str, request: &AddEntryRequest) -> Result<Reply, Problem> {
        let list = parse_list(list)?;
        let condition = check_length(&request.condition)?;
        let ttl = request.r#for.map(|ttl| ttl.0);
        let added = self.runtime_lists.add(self.sluice, self.store, list, condition, ttl);
        Ok(reply::json(StatusCode::CREATED, &ListEntryView::from(added.map_err(list_problem)?)))
    }

    /// Removes an entry that was added at runtime.
    pub(super) fn remove(self, list: &str, query: &Query<'_>) -> Result<Reply, Problem> {
        let list = parse_list(list)?;
        let condition = check_length(query.required("condition")?)?;
        let removed = self.runtime_lists.remove(self.sluice, self.store, list, condition).map_err(list_problem)?;
        let (local, _) = self.sluice.lists();
        if !removed && Expr::parse(condition).is_ok_and(|it| runtime_lists::entries_of(&local, list).contains(&it)) {
            let detail = "the entry is in the rule file: remove it there";
            return Err(Problem::new(ProblemKind::Conflict, detail));
        }
        Ok(reply::ok(&RemovedView { removed }))
    }
}

fn parse_list(list: &str) -> Result<ListKind, Problem> {
    match list {
        "allow" => Ok(ListKind::Allow),
        "deny" => Ok(ListKind::Deny),
        other => Err(route::unknown(&format!("/v1/lists/{other}"))),
    }
}

fn check_length(condition: &str) -> Result<&str, Problem> {
    let detail = || format!("the condition has more than {MAX_CONDITION_BYTES} bytes: split it into several entries");
    if condition.len() <= MAX_CONDITION_BYTES {
        Ok(condition)
    } else {
        Err(Problem::new(ProblemKind::Unprocessable, detail()))
    }
}

fn list_problem(error: RuntimeListError) -> Problem {
    let detail = error.to_string();
    match error {
        RuntimeListError::Condition(_) => Problem::new(ProblemKind::Unprocessable, detail).at("/condition"),
        RuntimeListError::Full => Problem::new(ProblemKind::Conflict, detail),
        RuntimeListError::Rules(_) => Problem::new(ProblemKind::Unavailable, detail),
    }
}
