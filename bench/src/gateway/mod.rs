//! The gateway beside nginx: the same limit, the same upstream, the same requests.
//!
//! Both run as their users run them, as programs of their own with a file that says what to do
//! (`nginx.conf`, `rules.yaml`), two workers or threads each. Every case first asks both for an answer and
//! looks at it, and counts afterwards what became of all requests: a case in which a side did something
//! else stops.

pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod sides;
pub(crate) mod throughput;

/// Who it is measured against.
const NGINX: &str = "nginx with limit_req";
