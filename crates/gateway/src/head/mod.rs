//! Request heads: validation, header scan, hop-by-hop and forwarded headers, cookies.

mod check;
mod cookies;
mod forwarded;
mod hop_by_hop;
mod scan;

pub(crate) use check::{authority, check};
pub(crate) use cookies::join_cookies;
pub(crate) use forwarded::ClientOrigin;
pub(crate) use hop_by_hop::{is_upgrade, strip_hop_by_hop, strip_response_hop_by_hop};
pub(crate) use scan::HeaderScan;
