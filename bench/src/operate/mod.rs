//! Cost of monitoring and of rule reloads.
//!
//! The peer is the same program without the admin API. The monitored program tracks top keys, has its metrics scraped
//! and a dashboard open, and logs refusals.

mod monitor;
pub(crate) mod monitored;
pub(crate) mod reload;

/// Name of the peer.
const UNMONITORED: &str = "the same, not monitored";
