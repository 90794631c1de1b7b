//! Key table that is built on first use.

use std::sync::OnceLock;

use crate::limit::{Limit, LimitError};
use crate::limit_set::LimitSet;
use crate::table::Table;

/// Key table with the limit set it needs to handle states.
pub(super) struct KeyTable {
    pub(super) limit_set: LimitSet,
    pub(super) table: Table,
}

/// Key table that takes no memory until its first use.
#[derive(Default)]
pub(super) struct LazyTable(OnceLock<Result<KeyTable, LimitError>>);

impl LazyTable {
    /// The table, if it has been built.
    pub(super) fn built(&self) -> Option<&KeyTable> {
        self.0.get()?.as_ref().ok()
    }

    #[inline]
    pub(super) fn get_or_build(
        &self,
        size: usize,
        seed: u64,
        limit: impl FnOnce() -> Result<Limit, LimitError>,
    ) -> Result<&KeyTable, LimitError> {
        let build = || {
            let limit_set = LimitSet::single(limit()?);
            let table = Table::with_buckets(&limit_set, size, seed)?;
            Ok(KeyTable { limit_set, table })
        };
        self.0.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}
