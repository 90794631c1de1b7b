//! Canonical key: the same bytes in every process.

use std::fmt;
use std::hash::Hasher;

use smallvec::SmallVec;

use crate::rule::key::hash_key;
use crate::rule::{KeyPart, Params, Request};

/// Key of a request in a form that is the same in every process. Different keys of a rule have different bytes.
///
/// Each part is its type and value: `4` and four octets, `6` and sixteen, or `t`, the length as eight bytes in
/// little-endian order, and the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CanonicalKey(SmallVec<[u8; 24]>);

impl CanonicalKey {
    /// Key of a request; `None` if it lacks a part.
    pub fn of(parts: &[KeyPart], request: &Request<'_>, params: &Params<'_>) -> Option<Self> {
        let mut writer = KeyBytesWriter(SmallVec::new());
        hash_key(parts, request, params, &mut writer).then_some(Self(writer.0))
    }

    /// Bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for CanonicalKey {
    fn from(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }
}

impl fmt::Debug for CanonicalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CanonicalKey({})", self.0.escape_ascii())
    }
}

/// Hasher that collects its input.
struct KeyBytesWriter(SmallVec<[u8; 24]>);

impl Hasher for KeyBytesWriter {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
