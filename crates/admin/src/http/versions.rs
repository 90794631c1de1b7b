//! Earlier texts of the rules.

use serde::{Deserialize, Serialize};
use sluicegate_engine::Sluice;

use super::access::Asker;
use super::fields::Line;
use super::problem::{Kind, Problem, shown};
use super::reply::{self, Reply};
use super::source;
use crate::keeper::{Keeper, Refusal, Version};
use crate::moment::Moment;

/// Why an earlier text is put in force again.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToRestore {
    #[serde(default)]
    comment: Line,
}

#[derive(Serialize)]
struct All {
    versions: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    version: u64,
    at: Moment,
    author: String,
    comment: String,
    bytes: u64,
    current: bool,
}

#[derive(Serialize)]
struct WithText {
    #[serde(flatten)]
    version: Shown,
    text: String,
}

impl From<Version> for Shown {
    fn from(version: Version) -> Self {
        let Version { number, at, author, comment, bytes, is_current } = version;
        Self { version: number, at: at.into(), author, comment, bytes, current: is_current }
    }
}

/// All that are remembered, the newest first.
pub(super) async fn all(keeper: &Keeper) -> Result<Reply, Problem> {
    let versions = keeper.versions().await?;
    Ok(reply::ok(&All { versions: versions.into_iter().map(Shown::from).collect() }))
}

/// One of them, with its text.
pub(super) async fn one(keeper: &Keeper, number: &str) -> Result<Reply, Problem> {
    let number = numbered(number)?;
    let (version, text) = keeper.version(number).await?.ok_or(Refusal::NoSuchVersion { number })?;
    Ok(reply::ok(&WithText { version: version.into(), text }))
}

/// Puts one of them in force again.
pub(super) async fn restore(
    sluice: &Sluice,
    keeper: &Keeper,
    number: &str,
    asked: ToRestore,
    asker: Asker,
) -> Result<Reply, Problem> {
    let applied = keeper.restore(numbered(number)?, &asker.name, &asked.comment.0).await?;
    Ok(source::applied(sluice, applied))
}

fn numbered(text: &str) -> Result<u64, Problem> {
    let wrong = |_| Problem::new(Kind::UnknownVersion, format!("{} is no number of a version", shown(text)));
    text.parse().map_err(wrong)
}
