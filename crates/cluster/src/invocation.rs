//! A Lua script and a call of it.

use bytes::Bytes;

/// A Lua script.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its source text.
    pub(crate) source: String,
    /// SHA-1 of the source in hexadecimal, for `EVALSHA`.
    pub(crate) sha: String,
}

impl Script {
    pub(crate) fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }
}

/// One call of a script. On a Redis Cluster all keys are in one slot.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Bytes>,
    pub(crate) arguments: Vec<Bytes>,
}
