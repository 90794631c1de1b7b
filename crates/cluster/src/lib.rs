//! Redis-backed store for cluster-wide limits: many processes enforce one threshold in Redis or Valkey.
//!
//! ```text
//!  callers            this process                                   Redis / Valkey
//!  Sluice::admit ---> leased?  yes: take from the local slice        lease.lua   slices of the limit
//!                     no: DecisionRequest --> client thread, batches acquire.lua every algorithm, store clock
//!                                 deadline, breaker, reconnect       release.lua release, settle, permits
//! ```
//!
//! Modules:
//!
//! - `store`: [`ClusterStore`], the engine's store implementation: exact decisions, leases, permits, sync.
//! - `client`: background I/O thread: batching, deadlines, circuit breaker, heartbeat, recovery.
//! - `connection`: connections to a single server, a Sentinel primary or a Redis Cluster.
//! - `exact`: encoding and decoding of the exact-mode scripts (acquire, release, renew).
//! - `lease`: local decisions from leased slices of a limit.
//! - `shared_state`: replicated bans and allow/deny lists.
//! - `rules`: versioned rule text in the store.
//! - `algorithm_scripts`: Lua scripts of the algorithms.
//! - `encoded_limits`: limits encoded for the Lua scripts.
//! - `decision`: the decision request and its result.
//! - `keys`, `slot`: key names and Redis Cluster hash slots.
//! - `health`, `error`, `options`, `invocation`: health snapshot, errors, settings, script calls.
//!
//! A decision that needs the store is a `DecisionRequest`: the limits of one key, or of several keys that must
//! all agree. The client thread batches the requests of all callers. Each is answered in one round trip or fails
//! at its deadline; the rule's failure policy turns a failure into a verdict.

mod algorithm_scripts;
mod client;
mod connection;
mod decision;
mod encoded_limits;
mod error;
mod exact;
mod health;
mod invocation;
mod keys;
mod lease;
mod options;
mod rules;
mod shared_state;
mod slot;
mod store;

pub use error::{StartError, StoreErrorKind};
pub use health::{Health, Leases, StoreState};
pub use options::{StoreOptions, Tls, Topology};
pub use rules::{MAX_RULES_BYTES, MAX_VERSIONS, RuleRepositoryError, StoredRules, StoredVersion};
pub use shared_state::ListKind;
pub use store::{ClusterStore, RuleRepository};
