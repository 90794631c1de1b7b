//! Leases: a node takes slices of a limit from the store and decides locally.
//!
//! ```text
//!  callers --> LeaseTable: one Holder per key --- request: spent, holding, want, takes ---> lease.lua
//!              slice enough? taken at once    <-- answer: kept, granted, taken -----------  (= Ledger)
//!              else: goes with the request
//! ```
//!
//! **Guarantee.** For every limit of a rule, the whole fleet keeps the bound that one process would keep: in
//! any span T at most B + r·T from a token bucket, at most L in any window, at most L in each fixed
//! window. This holds whatever crashes and pauses, whatever messages are lost, doubled, delayed or
//! reordered, and whatever the nodes' clocks show, as long as they run at the right rate within 3 %. Each
//! loss of the store's memory (a restart, a failover to a copy that lags, FLUSHALL, a step forward of its
//! clock) costs one burst at most, and only for the life of a lease.
//!
//! **Proof.** The store counts a token as *out* from the moment it is granted until it learns that it was
//! spent (then it is *spent* at that moment), that it is not needed, or that its lease has ended (then it
//! counts as spent at that moment).
//!
//! 1. *Whatever a node spends is out while it spends it.* A node spends only what an answer brought, and
//!    every answer belongs to its one request under way, named by node, epoch and sequence. The store counts
//!    down what is out in three cases only. It is reported: then it was spent before. It comes back: that is
//!    what the store counts as out and the node neither spent nor holds when it asks. An answer not yet
//!    received could make that wrong, but none is: only one request is under way, a request that failed
//!    is never heeded again, and one that arrives after a later one is stale and changes nothing. Or the
//!    lease has ended: the node stopped earlier, for its own count of a shorter life began when it sent the
//!    request, the store's when it read it.
//! 2. *Buckets.* A grant of k needs debt + k intervals <= B intervals and adds k intervals; time takes debt
//!    away, but never below out; what comes back takes its intervals away; what is spent takes nothing away.
//!    Let U be out at the beginning of a span T, G what is granted or taken in it, R what comes back. By 1,
//!    at most U + G - R is spent in it. Debt began at U intervals or more and time took at most T away, so
//!    (U + G - R) intervals - T <= debt at the end <= B intervals.
//! 3. *Windows.* A grant of k needs used + out + k <= L, where used is what was spent in the cells that
//!    count. Let U, G, R be as before for a span of one window that ends now. At most U + G - R is spent in
//!    it, and all of that is now either out or was booked within the span, so in a cell that still counts:
//!    U + G - R <= used + out <= L.
//! 4. *Loss.* Before it, what was spent in a span and what was still unspent at the loss keep the bound
//!    together. After it, the store grants anew and keeps the bound by itself. Both bursts meet only while
//!    leases of before last. A node that the store does not know keeps no more of its slice than fits
//!    beside everything else, so that from then on free + out <= B again.
//!
//! **Size of a slice.** It follows what callers ask for, so that one lasts for about fifty milliseconds; more is
//! fetched when half is used. At most half of a limit is out, so that the other half has room to refill; no
//! node has more than an equal share of that or half of what nobody else has. A slice of less than four
//! is not worth it: then, and for keys that are asked for now and then, every caller is decided by the
//! store. That needs no switch: such callers go with the request as *takes*, spent at once, and come back
//! to slices as soon as there are any. A node that is not asked for a fifth of a second gives back.
//!
//! **Refusals.** What the store has just refused is refused on the node for a few milliseconds at most,
//! without asking again: overload does not reach the store.
//!
//! - [`terms`]: which limits can be leased
//! - [`message`], [`wire`]: what is said, and how it is written down
//! - [`ledger`], [`tally`]: the store's side, the specification of `lease.lua`
//! - [`holder`], [`demand`]: a node's side for one key
//! - [`table`], [`waiting`]: all keys of a rule, and callers that wait
//! - [`turns`]: what became of slices, for whoever watches

#[cfg(test)]
mod chance;
mod demand;
#[cfg(test)]
mod differential;
mod holder;
#[cfg(test)]
mod ledger;
mod message;
#[cfg(test)]
mod simulation;
mod table;
#[cfg(test)]
mod tally;
mod terms;
mod turns;
mod waiting;
mod wire;

pub(crate) use holder::{Outcome, Slip};
pub(crate) use message::{LeaseReply, NodeId};
pub(crate) use table::{LeaseTable, Local, Messenger, Parcel};
pub(crate) use terms::Leasable;
pub(crate) use turns::{Held, LeaseCounters};
pub(crate) use wire::{LEASE, decode, encode};
