//! The admin API over HTTP.
//!
//! ```text
//!  call ──> route ──> who may ──> body ──> handler ──> reply
//!             │          │          │         │
//!             └──────────┴──────────┴─────────┴──> problem (RFC 9457)
//! ```
//! Every route stands in one table ([`route`]) with the methods that fit and what they need; handlers are thin: they
//! read what was asked, call the engine or the keeper, and render.

mod access;
mod adaptive;
mod api;
mod assets;
mod bans;
mod body;
mod explain;
mod fields;
mod keys;
mod limits;
mod lists;
mod pages;
mod problem;
mod query;
mod reply;
mod route;
mod rules;
mod source;
mod status;
mod store;
mod top;
mod versions;

#[cfg(test)]
mod tests;

pub(crate) use adaptive::{Brief as Strained, brief as strained};
pub(crate) use api::Api;
pub(crate) use reply::Body;
pub(crate) use rules::used_of;
pub(crate) use store::state_name;
