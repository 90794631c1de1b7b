//! The text of the rules: looked at, checked, exchanged.

use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sluicegate_engine::Sluice;

use super::access::Asker;
use super::fields::Line;
use super::problem::{Faults, Kind, Problem};
use super::reply::{self, Reply};
use super::status::origin_of;
use crate::keeper::{Applied, Edit, Fault, Keeper, Refusal, Source};

/// A text that is to be looked at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToCheck {
    text: String,
}

/// A text that is to be put in force.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToPut {
    text: String,
    based_on: u64,
    #[serde(default)]
    comment: Line,
}

#[derive(Serialize)]
struct Shown {
    text: String,
    origin: &'static str,
    path: Option<String>,
    version: u64,
    editable: bool,
    why_not: Option<String>,
}

/// One thing found in a text.
#[derive(Debug, Serialize)]
pub(super) struct FaultShown {
    line: usize,
    column: usize,
    message: String,
    help: Option<String>,
}

#[derive(Serialize)]
struct CheckedShown {
    ok: bool,
    faults: Vec<FaultShown>,
    warnings: Vec<FaultShown>,
}

#[derive(Serialize)]
struct AppliedShown {
    version: u64,
    edition: u64,
    warnings: Vec<FaultShown>,
    pending_restart: Vec<String>,
}

impl From<Fault> for FaultShown {
    fn from(fault: Fault) -> Self {
        let Fault { line, column, message, help } = fault;
        Self { line, column, message, help }
    }
}

fn shown(faults: Vec<Fault>) -> Vec<FaultShown> {
    faults.into_iter().map(FaultShown::from).collect()
}

/// The text in force.
pub(super) fn get(keeper: &Keeper) -> Reply {
    let Source { text, origin, version, why_not } = keeper.source();
    let (origin, path) = origin_of(&origin);
    let mut reply = reply::ok(&Shown { text, origin, path, version, editable: why_not.is_none(), why_not });
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        reply.headers_mut().insert(header::ETAG, tag);
    }
    reply
}

/// What is wrong with a text.
pub(super) async fn check(keeper: &Keeper, asked: ToCheck) -> Reply {
    let checked = keeper.check(asked.text).await;
    let (faults, warnings) = (shown(checked.faults), shown(checked.warnings));
    reply::ok(&CheckedShown { ok: faults.is_empty(), faults, warnings })
}

/// Puts a text in force.
pub(super) async fn put(sluice: &Sluice, keeper: &Keeper, asked: ToPut, asker: Asker) -> Result<Reply, Problem> {
    let ToPut { text, based_on, comment } = asked;
    let edit = Edit { text, based_on: Some(based_on), author: asker.name, comment: comment.0 };
    Ok(applied(sluice, keeper.put(edit).await?))
}

/// Reads the text anew from where it lives.
pub(super) async fn reload(sluice: &Sluice, keeper: &Keeper) -> Result<Reply, Problem> {
    Ok(applied(sluice, keeper.reload().await?))
}

/// What has been put in force.
pub(super) fn applied(sluice: &Sluice, applied: Applied) -> Reply {
    let Applied { version, warnings, pending_restart } = applied;
    let warnings = shown(warnings);
    reply::json(StatusCode::OK, &AppliedShown { version, edition: sluice.edition(), warnings, pending_restart })
}

/// Why nothing was put in force, as a problem.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let told = refusal.to_string();
        match refusal {
            Refusal::Faulty(faults) => Self::new(Kind::Faulty, told).with(Faults { faults: shown(faults) }),
            Refusal::Overtaken { .. } => Self::new(Kind::Overtaken, told),
            Refusal::NoSuchVersion { .. } => Self::new(Kind::UnknownVersion, told),
            Refusal::NotEditable(_) => Self::new(Kind::Forbidden, told),
            Refusal::Unavailable(_) => Self::new(Kind::Unavailable, told),
        }
    }
}
