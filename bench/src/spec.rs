//! Rules, token buckets and requests of the in-process cases.

/// Definition of a rule.
pub(crate) struct BenchRule {
    /// Name, unique in the rule set.
    pub(crate) name: String,
    /// Method; `None` for any.
    pub(crate) method: Option<&'static str>,
    /// Path prefix.
    pub(crate) path_prefix: String,
    /// One bucket per account instead of one for all.
    pub(crate) per_account: bool,
    /// Limits; all must admit.
    pub(crate) limits: Vec<BucketSpec>,
}

/// Definition of a token bucket.
#[derive(Clone, Copy)]
pub(crate) struct BucketSpec {
    /// Tokens added per period.
    pub(crate) tokens: u64,
    /// Length of the period.
    pub(crate) seconds: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
}

/// Request to decide.
#[derive(Clone, Copy)]
pub(crate) struct BenchRequest<'a> {
    /// HTTP method.
    pub(crate) method: &'a str,
    /// HTTP path.
    pub(crate) path: &'a str,
    /// Account of the caller.
    pub(crate) account: &'a str,
}
