//! Reservation store: reservations and permits held for HTTP clients until they end or expire.
//!
//! Each is an engine outcome, stored under an unguessable id for a limited time. The number is bounded: a
//! [`ReservationSlot`] is taken before the decision, so that nothing has to be given back for lack of space.
//!
//! Ids are distributed over shards with one lock each. One timer serves all shards: [`ReservationStore::expire`].

mod id;
mod shard;
mod store;

pub(super) use id::ReservationId;
pub(super) use store::{ReservationSlot, ReservationStore, SlotError, StoredReservation};

/// The kind of a stored outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationKind {
    Reservation,
    Permit,
}
