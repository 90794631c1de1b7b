//! The admin API over HTTP.
//!
//! ```text
//!  call ──> route ──> authorization ──> body ──> handler ──> response
//!             │             │            │          │
//!             └─────────────┴────────────┴──────────┴──> problem (RFC 9457)
//! ```
//! All routes are in one table ([`route`]) with their methods and required access. Handlers are thin: they
//! decode the request, call the engine or the rule manager, and encode the response. The OpenAPI document is built
//! from the route table and the types of the bodies ([`openapi`]).

mod access;
mod adaptive;
mod api;
mod assets;
mod bans;
mod body;
mod event_stream;
mod explain;
mod fields;
mod keys;
mod limits;
mod lists;
mod openapi;
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

pub(crate) use api::Api;
pub(crate) use reply::Body;
