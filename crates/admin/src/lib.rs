//! Operating Sluicegate: the people who carry the pager see what is refused, why and to whom, and change it
//! without a restart.
//!
//! - [`keeper`]: the rules in force, where their text comes from, and how it is exchanged for another
//! - [`Admin`]: a listener of its own with the admin API, the dashboard and the metrics
//! - [`Sources`]: what it tells of: the rules, their keeper, and the services that go by them
//!
//! A call's life in here: the way in (TLS, if that is spoken), the route, who may ask, the body, and then one thin
//! handler that reads, asks the engine or the keeper, and renders. Whatever goes wrong on the way is a problem
//! document (RFC 9457).

mod added;
mod admin;
mod http;
pub mod keeper;
mod live;
mod metrics;
pub mod mismatch;
mod moment;
mod refusals;
mod sources;
mod tokens;

pub use admin::{Admin, OpenError, Running};
pub use metrics::otlp::OtlpError;
pub use refusals::tell_refusals;
pub use sources::{
    ConnectionReading, GatewayReading, LimitReading, LogReading, ServerReading, Sources, UpstreamReading, store_name,
};
pub use tokens::TokensError;
