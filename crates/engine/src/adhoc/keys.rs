//! A table of keys, built when it is first needed.

use std::sync::OnceLock;

use crate::limit::{Limit, LimitError};
use crate::plan::Plan;
use crate::table::Table;

/// Keys with their states, and what the table needs to know of any of them.
pub(super) struct Keys {
    pub(super) plan: Plan,
    pub(super) table: Table,
}

/// Keys that take up no memory until somebody asks for them.
#[derive(Default)]
pub(super) struct BuiltOnce(OnceLock<Result<Keys, LimitError>>);

impl BuiltOnce {
    /// The keys, if they were asked for before.
    pub(super) fn built(&self) -> Option<&Keys> {
        self.0.get()?.as_ref().ok()
    }

    #[inline]
    pub(super) fn get_or_build(
        &self,
        size: usize,
        seed: u64,
        limit: impl FnOnce() -> Result<Limit, LimitError>,
    ) -> Result<&Keys, LimitError> {
        let build = || {
            let plan = Plan::of_one(limit()?);
            let table = Table::with_buckets(&plan, size, seed)?;
            Ok(Keys { plan, table })
        };
        self.0.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}
