//! Exact mode: every decision is made in the store, in one round trip.
//!
//! The scripts restate the engine's algorithms: at whole microseconds, their verdicts, waits and
//! remaining amounts equal the engine's. This module encodes their arguments and decodes their
//! replies.
//!
//! ```text
//! requests  --- encode_acquire ---> acquire.lua  one MGET for all keys, one SET per changed key
//! decisions <-- decode_acquire ---
//! ```
//!
//! Times are microseconds since the engine's epoch, by the store's clock. A state's key expires once every
//! limit in it is full again. Permits and logs are stored in secondary keys.
//!
//! Requires Redis 7.0 or later, or Valkey. The user needs these commands on keys of our prefix: `EVALSHA`,
//! `SCRIPT LOAD`, `TIME`, `MGET`, `SET`, `DEL`, `GETRANGE`, `SETRANGE`, `PEXPIREAT`, `ZADD`, `ZREM`, `ZSCORE`,
//! `ZRANGEBYSCORE`.

mod acquire;
mod arguments;
mod release;
mod renew;
mod reply;
mod scripts;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use acquire::{decode_acquire, encode_acquire};
pub(crate) use release::{Release, decode_release, encode_release};
pub(crate) use renew::{Renewal, decode_renew, encode_renew};
pub(crate) use scripts::{ACQUIRE, RELEASE, RENEW};
