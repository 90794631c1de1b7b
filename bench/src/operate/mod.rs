//! What it costs to be watched, and to have the rules exchanged.
//!
//! The peer is the same program with nobody watching: no admin pages. The watched one counts top keys, has its metrics
//! scraped and a dashboard open, and its log tells of refusals.

pub(crate) mod reload;
mod watched;
pub(crate) mod watching;

/// Who it is measured against.
const UNWATCHED: &str = "the same, unwatched";
