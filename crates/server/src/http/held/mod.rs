//! What is held for clients until they end it: reservations and permits.
//!
//! Each is an outcome of the engine, kept under an id that nobody can guess, for so long and no longer.
//! There are at most so many: a [`Place`] is taken before anything is decided, so that nothing needs to be
//! given back for want of one.
//!
//! Ids are spread over shards, each with its own lock. One timer serves them all: [`Registry::expire`].

mod id;
mod registry;
mod shard;

pub(super) use id::Id;
pub(super) use registry::{Kept, NoPlace, Place, Registry};

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reservation,
    Permit,
}
