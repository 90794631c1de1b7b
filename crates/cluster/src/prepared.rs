//! A rule's limits as the scripts take them.

/// A rule's limits, prepared once.
#[derive(Debug)]
pub(crate) struct PreparedLimits {}
