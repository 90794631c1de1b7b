//! What HTTP says about a request and its limits. No I/O, no runtime.
//!
//! - [`identity`]: who the client is, behind proxies that are trusted or not
//! - [`attributes`]: headers, cookies, query, API keys and claims, as rules name them
//! - [`normal_path`]: one spelling for each path

pub mod attributes;
pub mod identity;
mod path;

pub use path::normal_path;
