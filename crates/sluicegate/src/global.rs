//! The global sluice of the process.
//!
//! A function names the rule that limits it, but not the sluice that holds the rule. The program installs a global
//! sluice at startup, and may replace it at any time.
//!
//! ```
//! use sluicegate::{Sluice, rule::Rule};
//!
//! let sluice = Sluice::builder().rule(Rule::new("mails", ["10/1m".parse()?])).build()?;
//! sluicegate::install(sluice.clone());
//! assert_eq!(sluicegate::installed().map(|sluice| sluice.rules().len()), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use sluicegate_engine::Sluice;

static GLOBAL: ArcSwapOption<Sluice> = ArcSwapOption::const_empty();

/// Installs the global sluice and returns the previous one. It applies from the next call on.
///
/// To change only the rules, keep the sluice and use [`Sluice::replace`], which preserves the counters.
pub fn install(sluice: Sluice) -> Option<Sluice> {
    GLOBAL.swap(Some(Arc::new(sluice))).map(Arc::unwrap_or_clone)
}

/// Returns the global sluice, if one is installed.
pub fn installed() -> Option<Sluice> {
    current().as_deref().cloned()
}

/// Borrows the global sluice, without cloning it.
pub(crate) fn current() -> Guard<Option<Arc<Sluice>>> {
    GLOBAL.load()
}
