//! What stands between a Rust program and the engine: attribute, tower layer, streams.

pub(crate) mod attribute;
pub(crate) mod layer;
pub(crate) mod stream;
