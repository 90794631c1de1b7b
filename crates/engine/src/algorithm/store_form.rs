//! Parameters of a limit for the script of a shared store.
//!
//! The scripts count in whole microseconds of the store's clock and in numbers that are exact up to 2^53. Every
//! parameter is restated in these units and rounded to the strict side.

use std::time::Duration;

/// Scripts are exact up to twice this.
pub const MAX_NUMBER: u64 = 1 << 52;

/// A limit for its script.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreForm {
    /// Layout of the state. Limits with the same shape can use each other's state.
    pub shape: String,
    /// Parameters of the script, in its order.
    pub numbers: Vec<f64>,
    /// Store key besides the one of all limits.
    pub secondary: SecondaryKey,
}

/// Store key of a limit, besides the one that all limits of a rule share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondaryKey {
    /// None.
    None,
    /// A key of its own, with this suffix and the limit's position. Its index is appended to the parameters.
    Own(&'static str),
    /// The key of the permits. Their time to live, the key's index and a flag, set for the first limit with
    /// permits, are appended to the parameters.
    Permits,
}

/// A parameter beyond the numbers of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFormError(pub &'static str);

impl StoreForm {
    pub(super) fn new(shape: String, numbers: impl Into<Vec<f64>>) -> Self {
        Self { shape, numbers: numbers.into(), secondary: SecondaryKey::None }
    }
}

/// A number that a script can compute with.
pub(super) const fn exact(number: u64, field: &'static str) -> Result<u64, StoreFormError> {
    if number <= MAX_NUMBER { Ok(number) } else { Err(StoreFormError(field)) }
}

/// A duration in microseconds, rounded up.
pub fn ceil_micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
