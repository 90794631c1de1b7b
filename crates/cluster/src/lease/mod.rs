//! Leases: a node takes slices of a limit from the store and decides locally.
//!
//! ```text
//!  callers --> LeaseTable: one LeaseHolder per key --- request: spent, holding, want, takes ---> lease.lua
//!              slice enough? taken at once         <-- grant: retained, granted, taken --------  (= LeaseModel)
//!              else: goes with the request
//! ```
//!
//! **Guarantee.** For every limit of a rule, the cluster keeps the bound that one process would keep: in
//! any span T at most B + r·T from a token bucket, at most L in any window, at most L in each fixed
//! window. This holds under any crashes and pauses, under lost, duplicated, delayed or reordered messages, and
//! for any clock offsets of the nodes, as long as their clocks run at the right rate within 3 %. Each
//! loss of the store's data (a restart, a failover to a replica that lags, FLUSHALL, a forward step of its
//! clock) costs at most one burst, and only for the duration of a lease.
//!
//! **Proof.** The store counts a token as *outstanding* from its grant until it learns that it was
//! spent (then it is *spent* at that time), that it is not needed, or that its lease has expired (then it
//! counts as spent at that time).
//!
//! 1. *A token is outstanding while a node spends it.* A node spends only tokens that a reply granted, and
//!    every reply belongs to its one request in flight, identified by node, epoch and sequence. The store lowers
//!    the outstanding amount in three cases only. A token is reported: then it was spent before. It is returned:
//!    the store counts it as outstanding and the node neither spent nor holds it at the time of the request. A
//!    reply not yet received could make that wrong, but there is none: only one request is in flight, a failed
//!    request is never considered again, and one that arrives after a later one is stale and changes nothing.
//!    Or the lease has expired: the node stopped earlier, because its own shorter duration began when it sent
//!    the request, the store's when it processed it.
//! 2. *Buckets.* A grant of k needs debt + k intervals <= B intervals and adds k intervals; time reduces the
//!    debt, but never below the outstanding amount; returned tokens subtract their intervals; spending
//!    subtracts nothing. Let U be outstanding at the start of a span T, G granted or taken in it, R returned.
//!    By 1, at most U + G - R is spent in it. Debt began at U intervals or more and time took at most T away, so
//!    (U + G - R) intervals - T <= debt at the end <= B intervals.
//! 3. *Windows.* A grant of k needs used + outstanding + k <= L, with used the spending in the current
//!    cells. Let U, G, R be as before for a span of one window that ends now. At most U + G - R is spent in
//!    it, and all of that is now either outstanding or was recorded as spent within the span, so in a current cell:
//!    U + G - R <= used + outstanding <= L.
//! 4. *Loss.* Before it, the spending in a span and the tokens unspent at the loss keep the bound
//!    together. After it, the store grants again and keeps the bound by itself. Both bursts overlap only while
//!    earlier leases last. A node unknown to the store keeps no more of its slice than fits
//!    next to everything else, so that from then on available + outstanding <= B again.
//!
//! **Slice size.** It follows demand, so that a slice lasts about fifty milliseconds; the next one is
//! fetched when half is used. At most half of a limit is outstanding, so that the other half can refill; no
//! node has more than an equal share of that or half of the unleased part. A slice of less than four
//! is not worth it: then, and for rarely used keys, every caller is decided by the store. That needs no mode
//! switch: such callers go with the request as *takes*, spent at once, and return to slices as soon as there
//! are any. A node not used for a fifth of a second returns its slice.
//!
//! **Refusals.** A refusal of the store is cached on the node for at most a few milliseconds:
//! overload does not reach the store.
//!
//! - [`params`]: leasable limits and their parameters
//! - [`message`], [`codec`]: messages and their encoding
//! - [`model`], [`limit_balance`]: the store's side, the specification of `lease.lua`
//! - [`node`], [`demand`]: a node's side for one key
//! - [`table`], [`waiter`]: all keys of a rule, and waiting callers
//! - [`stats`]: slice statistics

mod codec;
mod demand;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod limit_balance;
mod message;
#[cfg(test)]
mod model;
mod node;
mod params;
#[cfg(test)]
mod simulation;
mod stats;
mod table;
mod waiter;

pub(crate) use codec::{LEASE, decode, encode};
pub(crate) use message::{LeaseReply, NodeId};
pub(crate) use node::{LeaseOutcome, LeaseReceipt};
pub(crate) use params::LeaseParams;
pub(crate) use stats::{LeaseCounters, LeaseHoldings};
pub(crate) use table::{LeaseMessage, LeaseTable, LeaseTransport, LocalResult};
