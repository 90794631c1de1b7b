//! One threshold for many processes: limits kept in Redis or Valkey.
//!
//! ```text
//!  callers            this process                                   Redis / Valkey
//!  Sluice::admit ---> leased?  yes: take from the slice here         lease.lua   slices of the limit
//!                     no: Ask --> driver (own thread) -- batches --> take.lua    every algorithm, the store's clock
//!                                 deadline, breaker, reconnect       end.lua     give back, settle, permits
//! ```
//!
//! A decision that needs the store is an *ask*: the limits of one key, or of several keys that
//! must all agree. Asks of all callers are gathered by the driver, a thread of its own, and sent together;
//! each is answered in one round trip or, past its deadline, with a failure that the rule's policy turns
//! into a verdict.

mod ask;
mod bulletin;
mod driver;
mod error;
mod exact;
mod health;
mod invocation;
mod keys;
mod lease;
mod link;
mod options;
mod prepared;
mod rulebook;
mod slot;
mod store;

pub use bulletin::ListKind;
pub use error::{StartError, StoreErrorKind};
pub use health::{Health, Leases, State};
pub use options::{StoreOptions, Tls, Topology};
pub use rulebook::{KeptRules, KeptVersion, LONGEST_RULES, MOST_VERSIONS, RulebookError};
pub use store::{ClusterStore, Rulebook};
