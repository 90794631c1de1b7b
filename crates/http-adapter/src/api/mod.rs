//! Common parts of Sluicegate's HTTP APIs, the decision server's and the admin's.
//!
//! A call has a JSON body of bounded size ([`read_body`], [`require_json`]). Errors become a [`Problem`], a
//! problem document (RFC 9457) that quotes the input ([`quote_input`]), suggests the closest known word
//! ([`nearest`](sluicegate_engine::spelling::nearest)) and names the remedy. With the feature `openapi`, the module
//! of that name builds the OpenAPI document of an API.

mod body;
#[cfg(feature = "openapi")]
pub mod openapi;
mod problem;

pub use body::{BodyError, read_body, require_json};
pub use problem::{NoExtensions, Problem, ProblemKind, quote_input};
