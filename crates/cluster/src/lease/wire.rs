//! Requests and replies as `lease.lua` reads and writes them.

use std::fmt::Write;
use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::message::{Account, LeaseAnswer, LeaseReply, LeaseRequest, Taken};
use super::terms::{Bound, Leasable};
use crate::invocation::{Invocation, Script};
use crate::keys::StoreKey;

const SOURCE: &str = include_str!("../scripts/lease.lua");

/// The store's side of leasing.
pub(crate) static LEASE: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

/// What is said of one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter<'a> {
    pub(crate) key: &'a StoreKey,
    pub(crate) terms: &'a Leasable,
    pub(crate) request: &'a LeaseRequest,
}

/// The store said something that is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store's answer about leases is not one; is another version of Sluicegate using the same script?")]
pub(crate) struct Malformed;

/// One call for all letters; on a Redis Cluster their keys must stand in one slot. `now`, in microseconds,
/// stands in for the store's own clock in tests.
pub(crate) fn encode<'a>(letters: impl IntoIterator<Item = Letter<'a>>, now: Option<u64>) -> Invocation {
    let mut keys = Vec::new();
    let mut arguments = vec![now.map_or_else(Bytes::new, |now| Bytes::from(now.to_string()))];
    for letter in letters {
        keys.push(letter.key.0.clone());
        arguments.push(Bytes::from(written(letter.terms, letter.request)));
    }
    Invocation { script: &LEASE, keys, arguments }
}

fn written(terms: &Leasable, request: &LeaseRequest) -> String {
    let mut text = format!("{} {}", request.life, terms.bounds().len());
    // Writing to a string cannot fail.
    for bound in terms.bounds() {
        _ = match bound {
            Bound::Bucket { interval, burst } => write!(text, " b {interval} {burst}"),
            Bound::Window { limit, cell, cells } => write!(text, " w {limit} {cell} {cells}"),
        };
    }
    let Account { node, epoch, sequence, spent, holding, want, charge } = &request.account;
    _ = write!(text, " {:032x} {epoch} {sequence} {spent} {holding} {want} {charge}", node.0);
    _ = write!(text, " {}", request.takes.len());
    for run in &request.takes {
        _ = write!(text, " {} {}", run.cost, run.count);
    }
    text
}

/// The replies to all letters, in their order.
pub(crate) fn decode(value: &Value, letters: usize) -> Result<Vec<LeaseReply>, Malformed> {
    match value {
        Value::Array(replies) if replies.len() == letters => replies.iter().map(reply).collect(),
        _ => Err(Malformed),
    }
}

fn reply(value: &Value) -> Result<LeaseReply, Malformed> {
    let Value::BulkString(bytes) = value else { return Err(Malformed) };
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    if text == "stale" {
        return Ok(LeaseReply::Stale);
    }
    let mut numbers = text.split(' ').map(|word| word.parse::<u64>().map_err(|_| Malformed));
    let mut next = || numbers.next().unwrap_or(Err(Malformed));
    let mut answer = LeaseAnswer {
        kept: next()?,
        granted: next()?,
        free: next()?,
        reset: next()?,
        healed: next()? != 0,
        ..Default::default()
    };
    while let Some(admitted) = numbers.next() {
        let wait = numbers.next().unwrap_or(Err(Malformed))?;
        answer.takes.push(Taken { admitted: admitted?, wait });
    }
    Ok(LeaseReply::Done(answer))
}
