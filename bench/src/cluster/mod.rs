//! Limits shared through Redis, compared with the usual token bucket script.
//!
//! Every case starts its own Redis server; both contenders use it alternately.

pub(crate) mod exact;
pub(crate) mod lease;
mod node;
pub(crate) mod plain;

pub(crate) use self::node::{ClusterBucket, run_node};
