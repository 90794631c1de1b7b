//! A key as every process writes it.

use std::fmt;
use std::hash::Hasher;

use smallvec::SmallVec;

use crate::rule::key::hash_key;
use crate::rule::{KeyPart, Params, Request};

/// A request's key in a form that is the same in every process: no two keys of a rule have the same bytes.
///
/// Each part is its kind and its value: `4` and four octets, `6` and sixteen, or `t`, the length as eight
/// bytes with the lowest first, and the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FleetKey(SmallVec<[u8; 24]>);

impl FleetKey {
    /// The key of a request; `None` if it lacks a part.
    pub fn of(parts: &[KeyPart], request: &Request<'_>, params: &Params<'_>) -> Option<Self> {
        let mut writer = Writer(SmallVec::new());
        hash_key(parts, request, params, &mut writer).then_some(Self(writer.0))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for FleetKey {
    fn from(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }
}

impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetKey({})", self.0.escape_ascii())
    }
}

/// Keeps what a hasher would be fed.
struct Writer(SmallVec<[u8; 24]>);

impl Hasher for Writer {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
