//! The gateway against nginx: the same limit, the same upstream, the same requests.
//!
//! Both run as separate programs with a configuration file (`nginx.conf`, `rules.yaml`) and two workers or threads.
//! Every case first checks a response of both and afterwards the status of all responses; an unexpected result aborts
//! the case.

pub(crate) mod contenders;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod throughput;

/// Name of the peer.
const NGINX: &str = "nginx with limit_req";
