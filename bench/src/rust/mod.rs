//! Overhead of the Rust adapters: attribute, tower layer, streams.

pub(crate) mod attribute;
pub(crate) mod layer;
pub(crate) mod stream;
