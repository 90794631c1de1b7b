//! What scripts answer: a row of whole numbers.

use redis::Value;
use thiserror::Error;

/// The store answered what no script of ours answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the store's answer makes no sense: something between this process and the store changes answers")]
pub(crate) struct Malformed;

/// The numbers of an answer, one after the other.
pub(super) struct Numbers(std::vec::IntoIter<Value>);

impl Numbers {
    pub(super) fn of(value: Value) -> Result<Self, Malformed> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(Malformed),
        }
    }

    pub(super) fn next(&mut self) -> Result<u64, Malformed> {
        match self.0.next() {
            Some(Value::Int(number)) => u64::try_from(number).map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.next()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Nothing may follow.
    pub(super) fn end(mut self) -> Result<(), Malformed> {
        self.0.next().map_or(Ok(()), |_| Err(Malformed))
    }
}
