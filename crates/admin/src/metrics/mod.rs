//! Metrics: what the process counts anyway, read when somebody asks.
//!
//! ```text
//!                        ┌──> exposition: OpenMetrics, or Prometheus' older text    (/metrics)
//!  sources ──> readings ─┤
//!                        └──> OTLP over HTTP                                         (pushed)
//! ```
//! There is one list of [`instrument`]s, which says of each what it is called, what it counts in and what it means;
//! readings are its values at one moment. Nothing is kept between two of them, and nothing is done on the way of a
//! request. Labels are names from the rule file and a few fixed words, and never a key, unless a file of
//! envoyproxy/ratelimit asks for its values: then those that whoever counts them has room for.

#[cfg(test)]
pub(crate) mod checker;
mod exposition;
pub(crate) mod instrument;
pub(crate) mod otlp;
mod process;
mod reading;
mod values;

pub(crate) use exposition::Format;

use crate::sources::Sources;

/// All metrics, as text.
pub(crate) fn text(sources: &Sources, format: Format) -> String {
    exposition::text(reading::all(sources), format)
}
