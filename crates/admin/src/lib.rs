//! Admin API, dashboard, metrics and rule reload of Sluicegate.
//!
//! Operators see refused requests with their rule, reason and key, and change rules without a restart.
//!
//! - [`reload`]: rule reload, versions and editing
//! - [`Admin`] (`admin`): the admin listener with API, dashboard and metrics
//! - [`Providers`] (`providers`): the data sources of the admin listener
//! - `http`: admin API over HTTP, and server-sent events with live counters
//! - `metrics`: Prometheus and OpenMetrics text, and OTLP push
//! - `runtime_lists`: allow and deny list entries added at runtime
//! - `refusal_log`: periodic log of refusals
//! - [`match_explain`]: reasons for which a rule does not match a request
//! - `tokens`, `rfc3339`: token file, timestamps
//!
//! A call passes TLS if configured, then the route table, authorization and body decoding, and reaches one thin
//! handler that calls the engine or the rule manager and encodes the response. Errors are problem documents
//! (RFC 9457).

mod admin;
mod http;
pub mod match_explain;
mod metrics;
mod providers;
mod refusal_log;
pub mod reload;
mod rfc3339;
mod runtime_lists;
mod tokens;

pub use admin::{Admin, AdminHandle, OpenError};
pub use metrics::otlp::OtlpError;
pub use providers::{
    AccessLogStats, ConnectionStats, GatewayStats, LimitStats, Providers, ServerStats, UpstreamStats,
    store_display_name,
};
pub use refusal_log::log_refusals;
pub use tokens::TokensError;
