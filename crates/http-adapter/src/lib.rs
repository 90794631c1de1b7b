//! HTTP adapter for Sluicegate decisions, without a server: client identity, request attributes, and the
//! rendering of outcomes. The tower layers, the gateway and the decision server are built on it.
//!
//! - [`identity`]: client IP behind trusted proxies.
//! - [`attributes`]: headers, cookies, query parameters, API keys and JWT claims for rules.
//! - `path`: [`normalize_path`], the path that rules are matched against.
//! - [`headers`]: `RateLimit` response headers.
//! - [`reply`]: responses to refused requests.
//! - `render`: [`Renderer`], renders a decision as headers and replies.
//! - `decision_view`: common view of an `Outcome` and a fast-path decision.
//! - `prerendered`: headers and replies prerendered per rule set.
//! - `header_value`: numbers, times and strings as header values.
//! - `completion`: [`classify_status`], completion class for adaptive limits.
//! - `pacing`: [`PacedBody`], a bandwidth-limited body.
//! - `actual_cost`: [`CostMeter`], the actual cost of a request from its response.
//! - [`server_hints`]: parser for `Retry-After` and `RateLimit` headers of other servers.
//! - `problem`: [`ProblemDocument`], the error format (RFC 9457) of all responses.
//! - [`api`]: common parts of Sluicegate's own HTTP APIs.
//!
//! A request passes `identity`, `path` and `attributes`, is decided by the engine, and its outcome passes
//! `render`; `pacing` and `actual_cost` follow the response body.

mod actual_cost;
pub mod api;
pub mod attributes;
mod completion;
mod decision_view;
mod guard;
mod header_value;
pub mod headers;
pub mod identity;
mod pacing;
mod path;
mod prerendered;
mod problem;
mod render;
pub mod reply;
pub mod server_hints;

pub use actual_cost::CostMeter;
pub use completion::classify_status;
pub use decision_view::DecisionView;
pub use guard::RequestGuard;
pub use headers::HeaderStyle;
pub use pacing::PacedBody;
pub use path::normalize_path;
pub use problem::ProblemDocument;
pub use render::Renderer;
pub use reply::Protocol;
