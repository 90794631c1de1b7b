//! How everything is, in one look.

use serde::Serialize;
use sluicegate_engine::Sluice;

use super::store;
use crate::keeper::{Keeper, Origin, Status, Trouble};
use crate::moment::Moment;
use crate::tokens::Access;

/// The answer.
#[derive(Serialize)]
pub(super) struct Shown {
    version: &'static str,
    started_at: Moment,
    uptime_s: f64,
    access: &'static str,
    rules: Rules,
    bans: usize,
    store: Option<store::Shown>,
}

#[derive(Serialize)]
struct Rules {
    count: usize,
    edition: u64,
    origin: &'static str,
    path: Option<String>,
    version: u64,
    loaded_at: Moment,
    reloads: u64,
    failed_reloads: u64,
    last_error: Option<Told>,
    pending_restart: Vec<String>,
}

#[derive(Serialize)]
struct Told {
    at: Moment,
    message: String,
}

impl From<Trouble> for Told {
    fn from(trouble: Trouble) -> Self {
        Self { at: trouble.at.into(), message: trouble.message }
    }
}

/// Since when the process runs, and for how long that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) since: Moment,
    pub(super) seconds: f64,
}

impl Shown {
    pub(super) fn new(
        sluice: &Sluice,
        keeper: &Keeper,
        running: Running,
        access: Access,
        store: Option<store::Shown>,
    ) -> Self {
        let Status { origin, version, loaded_at, reloads, failed_reloads, trouble, pending_restart } = keeper.status();
        let (origin, path) = origin_of(&origin);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at: running.since,
            uptime_s: running.seconds,
            access: access.name(),
            rules: Rules {
                count: sluice.counts().len(),
                edition: sluice.edition(),
                origin,
                path,
                version,
                loaded_at: loaded_at.into(),
                reloads,
                failed_reloads,
                last_error: trouble.map(Told::from),
                pending_restart,
            },
            bans: sluice.bans().len(),
            store,
        }
    }
}

/// Where a text lives, and the file that has to do with it.
pub(super) fn origin_of(origin: &Origin) -> (&'static str, Option<String>) {
    match origin {
        Origin::BuiltIn => ("built-in", None),
        Origin::File(path) => ("file", Some(path.display().to_string())),
        Origin::Store(path) => ("store", Some(path.display().to_string())),
    }
}
