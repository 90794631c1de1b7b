//! Parser for rate limit hints in responses: `Retry-After` and the remaining quota.
//!
//! Servers use many formats. All of them are parsed into one [`ServerHints`]:
//!
//! | header | parsed as |
//! |---|---|
//! | `Retry-After: 30`, or a date, with status 429, 503, 403, 3xx or gRPC status 8 | `retry_after` |
//! | `grpc-retry-pushback-ms: 500` with a gRPC status that is not 0 | `retry_after` |
//! | `RateLimit: "per-ip";r=50;t=30` and `RateLimit-Policy: "per-ip";q=300;w=60` | `quota` |
//! | `RateLimit: limit=300, remaining=50, reset=30` (an older draft) | `quota` |
//! | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | `quota` |
//! | `X-RateLimit-...`, `X-Rate-Limit-...`, the same three | `quota` |
//!
//! A number of seconds too large to be a wait is a Unix timestamp, as GitHub sends it. Dates and Unix
//! timestamps are compared with the server's own `Date` header if there is one, so clocks need not agree.
//! Unparsable values are ignored, and no input makes the parser panic. Values are returned as sent, however
//! large: the caller decides on an upper bound.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use sluicegate_http_adapter::server_hints::ServerHints;
//! use std::time::{Duration, SystemTime};
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("ratelimit", r#""per-ip";r=50;t=30"#.parse()?);
//! headers.insert("retry-after", "5".parse()?);
//!
//! let hints = ServerHints::read(StatusCode::TOO_MANY_REQUESTS, &headers, SystemTime::now());
//! assert_eq!(hints.retry_after, Some(Duration::from_secs(5)));
//! let quota = hints.quota.unwrap();
//! assert_eq!((quota.remaining, quota.reset), (50, Duration::from_secs(30)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod quota;
mod retry_after;
mod structured;
#[cfg(test)]
mod tests;
mod time;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use time::ResponseTime;

/// Rate limit hints of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerHints {
    /// Time to wait before the next call.
    pub retry_after: Option<Duration>,
    /// Remaining quota.
    pub quota: Option<QuotaStatus>,
}

/// Remaining quota as reported by a server, and the time until it resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// Requests that may still be sent before the reset.
    pub remaining: u64,
    /// Time until the reset; never zero.
    pub reset: Duration,
    /// Requests per window.
    pub limit: Option<u64>,
    /// Time from one reset to the next.
    pub window: Option<Duration>,
}

impl ServerHints {
    /// Parses the headers of a response received at `now`. With several policies, the tightest one is used.
    pub fn read(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let now = ResponseTime::of(headers, now);
        Self { retry_after: retry_after::read(status, headers, now), quota: quota::read(headers, now) }
    }

    /// Parses trailers, which carry the gRPC status.
    pub fn read_trailers(trailers: &HeaderMap, now: SystemTime) -> Self {
        Self { retry_after: retry_after::read(StatusCode::OK, trailers, ResponseTime::of(trailers, now)), quota: None }
    }

    /// True if the response had no hints.
    pub const fn is_empty(&self) -> bool {
        self.retry_after.is_none() && self.quota.is_none()
    }
}
