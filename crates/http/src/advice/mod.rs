//! What an answer asks of whoever calls next: `Retry-After`, and what is left of a budget.
//!
//! Servers say it in many ways. All of them are read into one [`Advice`]:
//!
//! | said by | read as |
//! |---|---|
//! | `Retry-After: 30`, or a date, with status 429, 503, 403, 3xx or gRPC status 8 | hold for so long |
//! | `grpc-retry-pushback-ms: 500` with a gRPC status that is not 0 | hold for so long |
//! | `RateLimit: "per-ip";r=50;t=30` and `RateLimit-Policy: "per-ip";q=300;w=60` | a budget |
//! | `RateLimit: limit=300, remaining=50, reset=30` (an older draft) | a budget |
//! | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` | a budget |
//! | `X-RateLimit-...`, `X-Rate-Limit-...`, the same three | a budget |
//!
//! A number of seconds too large to be a wait is a moment in Unix time, as GitHub sends it. Dates and
//! Unix times are compared with the server's own `Date` where there is one, so that the clocks need not
//! agree. What cannot be read is ignored; nothing can make the reader panic. Values are handed on as
//! they were said, however large: whoever obeys them decides how long at most.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use sluicegate_http::advice::Advice;
//! use std::time::{Duration, SystemTime};
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("ratelimit", r#""per-ip";r=50;t=30"#.parse()?);
//! headers.insert("retry-after", "5".parse()?);
//!
//! let advice = Advice::read(StatusCode::TOO_MANY_REQUESTS, &headers, SystemTime::now());
//! assert_eq!(advice.hold_for, Some(Duration::from_secs(5)));
//! let budget = advice.budget.unwrap();
//! assert_eq!((budget.remaining, budget.reset), (50, Duration::from_secs(30)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod hold;
mod moment;
mod structured;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};

use moment::Now;

/// What an answer asks of whoever calls next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Not to call for so long.
    pub hold_for: Option<Duration>,
    /// What is left.
    pub budget: Option<Budget>,
}

/// What a server says is left, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests that may still be made before the reset.
    pub remaining: u64,
    /// Time until the reset; never zero.
    pub reset: Duration,
    /// How many there are from one reset to the next.
    pub quota: Option<u64>,
    /// Time from one reset to the next.
    pub window: Option<Duration>,
}

impl Advice {
    /// Reads an answer that arrived at `now`. Where several policies are told, the tightest counts.
    pub fn read(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let now = Now::of(headers, now);
        Self { hold_for: hold::read(status, headers, now), budget: budget::read(headers, now) }
    }

    /// Reads what came after the body; of gRPC, the status does.
    pub fn read_trailers(trailers: &HeaderMap, now: SystemTime) -> Self {
        Self { hold_for: hold::read(StatusCode::OK, trailers, Now::of(trailers, now)), budget: None }
    }

    /// Whether nothing was said.
    pub const fn is_empty(&self) -> bool {
        self.hold_for.is_none() && self.budget.is_none()
    }
}
