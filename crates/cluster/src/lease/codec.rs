//! Encoding of requests and replies for `lease.lua`.

use std::fmt::Write;
use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::message::{Account, LeaseGrant, LeaseReply, LeaseRequest, RunResult};
use super::params::{LeaseLimit, LeaseParams};
use crate::invocation::{Invocation, Script};
use crate::keys::StoreKey;

const SOURCE: &str = include_str!("../scripts/lease.lua");

/// The lease script: the store's side of leasing.
pub(crate) static LEASE: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

/// Message about one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseFrame<'a> {
    pub(crate) key: &'a StoreKey,
    pub(crate) params: &'a LeaseParams,
    pub(crate) request: &'a LeaseRequest,
}

/// The reply does not have the expected form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease reply is malformed; is another version of Sluicegate using the same script?")]
pub(crate) struct MalformedLeaseReply;

/// Encodes all frames as one call; on a Redis Cluster their keys must be in one slot. `now`, in microseconds,
/// replaces the store's clock in tests.
pub(crate) fn encode<'a>(frames: impl IntoIterator<Item = LeaseFrame<'a>>, now: Option<u64>) -> Invocation {
    let mut keys = Vec::new();
    let mut arguments = vec![now.map_or_else(Bytes::new, |now| Bytes::from(now.to_string()))];
    for frame in frames {
        keys.push(frame.key.0.clone());
        arguments.push(Bytes::from(encode_request(frame.params, frame.request)));
    }
    Invocation { script: &LEASE, keys, arguments }
}

fn encode_request(params: &LeaseParams, request: &LeaseRequest) -> String {
    let mut text = format!("{} {}", request.duration, params.limits().len());
    // Writing to a string cannot fail.
    for bound in params.limits() {
        _ = match bound {
            LeaseLimit::Bucket { interval, burst } => write!(text, " b {interval} {burst}"),
            LeaseLimit::Window { limit, cell, cells } => write!(text, " w {limit} {cell} {cells}"),
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

/// Decodes the replies to all frames, in order.
pub(crate) fn decode(value: &Value, frames: usize) -> Result<Vec<LeaseReply>, MalformedLeaseReply> {
    match value {
        Value::Array(replies) if replies.len() == frames => replies.iter().map(decode_reply).collect(),
        _ => Err(MalformedLeaseReply),
    }
}

fn decode_reply(value: &Value) -> Result<LeaseReply, MalformedLeaseReply> {
    let Value::BulkString(bytes) = value else { return Err(MalformedLeaseReply) };
    let text = std::str::from_utf8(bytes).map_err(|_| MalformedLeaseReply)?;
    if text == "stale" {
        return Ok(LeaseReply::Stale);
    }
    let mut numbers = text.split(' ').map(|word| word.parse::<u64>().map_err(|_| MalformedLeaseReply));
    let mut next = || numbers.next().unwrap_or(Err(MalformedLeaseReply));
    let mut grant = LeaseGrant {
        retained: next()?,
        granted: next()?,
        available: next()?,
        reset: next()?,
        replaced: next()? != 0,
        ..Default::default()
    };
    while let Some(admitted) = numbers.next() {
        let wait = numbers.next().unwrap_or(Err(MalformedLeaseReply))?;
        grant.takes.push(RunResult { admitted: admitted?, wait });
    }
    Ok(LeaseReply::Done(grant))
}
