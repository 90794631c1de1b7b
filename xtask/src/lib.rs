//! Generator of the pictures and of the Chinese rule reference in `docs/`, and checks of the source tree.
//!
//! - [`burst`]: simulates the same requests against every algorithm, in virtual time.
//! - [`picture`]: draws the result of a simulation as SVG.
//! - [`gallery`]: all pictures with their names. `make pictures` writes them to `docs/pictures`, and a test
//!   checks that those files are up to date.
//! - [`chinese`]: translates the rule file reference phrase by phrase; a test checks that no phrase is missing.
//! - [`modules`]: finds cycles between the top-level modules of a crate; a test checks that there are none.
//!
//! The output is deterministic: it does not depend on the clock or the machine.
//!
//! ```
//! let pictures = xtask::gallery::pictures()?;
//! assert!(pictures.iter().any(|(name, svg)| *name == "fixed-window.svg" && svg.starts_with("<svg")));
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

pub mod burst;
pub mod chinese;
pub mod gallery;
pub mod modules;
pub mod picture;

/// Migration guides as doctests: the code of the other library and its replacement are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/from-governor.md")]
    struct FromGovernor;
    #[doc = include_str!("../../docs/from-guava.md")]
    struct FromGuava;
    #[doc = include_str!("../../docs/from-sentinel.md")]
    struct FromSentinel;
}
