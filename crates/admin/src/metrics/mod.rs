//! Metrics: existing counters, read on demand.
//!
//! ```text
//!                          ┌──> exposition: OpenMetrics or Prometheus text   (/metrics)
//!  providers ──> gather ───┤
//!                          └──> OTLP over HTTP                               (pushed)
//! ```
//! The [`catalogue`] defines name, unit and help of each instrument; `gather` reads their values at one time.
//! Nothing is stored between two reads, and nothing runs on the request path. Labels are names from the rule
//! file and a few fixed values, never a key, unless an envoyproxy/ratelimit file requests counts by value; the
//! server bounds their number.

pub(crate) mod catalogue;
mod envoy_stats;
mod exposition;
#[cfg(test)]
pub(crate) mod exposition_parser;
mod gather;
pub(crate) mod otlp;
mod process;

pub(crate) use exposition::Format;

use crate::providers::Providers;

/// Encodes all metrics as text.
pub(crate) fn text(sources: &Providers, format: Format) -> String {
    exposition::text(gather::gather_all(sources), format)
}
