//! The sluice that a whole process shares.
//!
//! A function says by which rule it is limited, but not where that rule comes from: whoever starts the
//! program installs the sluice, and may install another one at any time.
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

static INSTALLED: ArcSwapOption<Sluice> = ArcSwapOption::const_empty();

/// Makes this the sluice of the process, from the next call on. Answers the one before.
///
/// To change only the rules, keep the sluice and use [`Sluice::replace`]: then what was counted stays
/// counted.
pub fn install(sluice: Sluice) -> Option<Sluice> {
    INSTALLED.swap(Some(Arc::new(sluice))).map(Arc::unwrap_or_clone)
}

/// The sluice of the process, if one was installed.
pub fn installed() -> Option<Sluice> {
    present().as_deref().cloned()
}

/// The sluice of the process, without keeping hold of it.
pub(crate) fn present() -> Guard<Option<Arc<Sluice>>> {
    INSTALLED.load()
}
