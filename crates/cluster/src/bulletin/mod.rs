//! The fleet's bulletin board: what every process should know within a second.
//!
//! Bans by cluster-wide rules and lists that were given to the fleet stand on a board in the store. Each
//! process looks several times a second, in one call that posts its own news and brings what is new to
//! it. A process that finds another board than it knew, because the store has lost what it held, posts
//! all its bans again: a ban survives the restart of any process and of the store, as long as one of the
//! two remembers it.

mod board;
mod entry;

pub(crate) use board::{Board, Look, script};
pub use entry::ListKind;
pub(crate) use entry::{Change, ListChange, lists};
