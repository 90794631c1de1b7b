//! Names of our keys in the store.

use bytes::Bytes;

/// A key in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey(pub(crate) Bytes);
