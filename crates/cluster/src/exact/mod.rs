//! Exact mode: every decision is made in the store, in one round trip.
//!
//! The scripts restate the engine's algorithms: for moments in whole microseconds their verdicts, waits and
//! what they report as left are the engine's own. This module writes their arguments and reads their
//! answers.
//!
//! ```text
//! asks --- encode_take ---> take.lua  one MGET for all keys, one SET per key that changed
//! said <-- decode_take ---
//! ```
//!
//! Times are microseconds since the engine's epoch, by the store's clock. A state's key expires when every
//! limit in it is full again. Permits and logs stand in second keys beside it.
//!
//! The store is Redis 7.0 or later, or Valkey. A user of it needs these commands: `EVALSHA`, `SCRIPT LOAD`, `TIME`, `MGET`, `SET`, `DEL`,
//! `GETRANGE`, `SETRANGE`, `PEXPIREAT`, `ZADD`, `ZREM`, `ZSCORE`, `ZRANGEBYSCORE`, on keys of our prefix.

mod arguments;
mod end;
mod renew;
mod reply;
mod scripts;
mod take;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use end::{Ending, decode_end, encode_end};
pub(crate) use renew::{Renewal, decode_renew, encode_renew};
pub(crate) use scripts::{END, RENEW, TAKE};
pub(crate) use take::{decode_take, encode_take};
