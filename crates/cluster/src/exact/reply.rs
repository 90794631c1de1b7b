//! Reader for script replies: arrays of integers.

use redis::Value;
use thiserror::Error;

/// The reply does not have the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the store's reply is malformed: check for a proxy that modifies replies")]
pub(crate) struct MalformedReply;

/// Reads the integers of a reply in order.
pub(super) struct ReplyReader(std::vec::IntoIter<Value>);

impl ReplyReader {
    pub(super) fn new(value: Value) -> Result<Self, MalformedReply> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(MalformedReply),
        }
    }

    pub(super) fn next(&mut self) -> Result<u64, MalformedReply> {
        match self.0.next() {
            Some(Value::Int(number)) => u64::try_from(number).map_err(|_| MalformedReply),
            _ => Err(MalformedReply),
        }
    }

    pub(super) fn next_flag(&mut self) -> Result<bool, MalformedReply> {
        match self.next()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedReply),
        }
    }

    /// Fails if anything is left.
    pub(super) fn finish(mut self) -> Result<(), MalformedReply> {
        self.0.next().map_or(Ok(()), |_| Err(MalformedReply))
    }
}
