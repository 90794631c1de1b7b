//! A script and what it is called with.

use bytes::Bytes;

/// A script as the store runs it.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its text.
    pub(crate) source: String,
    /// The SHA-1 of its text in hexadecimal, by which the store knows it.
    pub(crate) sha: String,
}

impl Script {
    pub(crate) fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }
}

/// One call of a script. All keys stand in one slot if the store is a Redis Cluster.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Bytes>,
    pub(crate) arguments: Vec<Bytes>,
}
