//! Shared state of the cluster: bans and allow/deny lists, replicated to every process within a second.
//!
//! Bans by cluster-wide rules and the cluster's lists are stored in Redis. Each process syncs several times a
//! second: one call sends its own changes and returns those it has not read yet. A process that finds a
//! different state ID, because the store has lost its data, sends all its bans again: a ban survives the restart
//! of any process and of the store, as long as one of the two retains it.

mod cursor;
mod list_entry;

pub(crate) use cursor::{SyncCursor, SyncResult, script};
pub use list_entry::ListKind;
pub(crate) use list_entry::{EntryChange, ListChange, build_lists};
