//! Styles of rate limit headers.

/// Style of the rate limit headers sent to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy`.
    #[default]
    Ietf,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Legacy,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`.
    X,
    /// No rate limit headers.
    None,
}
