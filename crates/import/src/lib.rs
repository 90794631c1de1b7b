//! Importers for the configurations of other rate limiters and proxies.
//!
//! - [`nginx`]: converts an nginx configuration to a rule file.
//! - [`envoy_ratelimit`]: reads the configuration of envoyproxy/ratelimit and matches descriptors to its limits.
//!
//! The rule file itself is the concern of `sluicegate-config`, which does not depend on this crate. Errors are its
//! [`Report`](sluicegate_config::Report)s, with file, line, column and remedy.

pub mod envoy_ratelimit;
pub mod nginx;
