//! What the manual in `docs/` is made with.
//!
//! 1. [`burst`]: the same few seconds of requests are played before every algorithm, in virtual time.
//! 2. [`picture`]: what became of each request is drawn, as SVG.
//! 3. [`gallery`]: which limits are shown, under which name. `make pictures` writes them to `docs/pictures`, and a
//!    test holds that the files there are what is drawn here.
//! 4. [`chinese`]: the reference of the rule file is made Chinese, phrase by phrase; a test holds that no phrase lacks.
//!
//! Nothing depends on the clock or the machine: whoever draws again gets the same bytes.
//!
//! ```
//! let pictures = sluicegate_manual::gallery::all()?;
//! assert!(pictures.iter().any(|(name, svg)| *name == "fixed-window.svg" && svg.starts_with("<svg")));
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

pub mod burst;
pub mod chinese;
pub mod gallery;
pub mod picture;

/// Pages about moving over: both what is shown of the other library and what takes its place are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/from-governor.md")]
    struct FromGovernor;
    #[doc = include_str!("../../../docs/from-guava.md")]
    struct FromGuava;
    #[doc = include_str!("../../../docs/from-sentinel.md")]
    struct FromSentinel;
}
