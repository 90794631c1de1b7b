//! Limits shared by many processes through Redis, beside the plain script that many use for that.
//!
//! Every case starts a Redis of its own. Both sides ask the same one, in turn.

pub(crate) mod exact;
pub(crate) mod lease;
mod node;
pub(crate) mod plain;

pub(crate) use self::node::{Bucket, run_node};
