//! The fleet's rulebook: texts of rules that live in the store, so that all processes change together.
//!
//! ```text
//!  admin API -- publish(text, who, why, based on 6) --> rulebook.lua --> version 7    one hash, one script
//!  every process, each second -- current_version? ----> 7: another one than mine
//!                             -- current() ------------> text, put in force whole
//! ```
//!
//! A text gets the next number, and numbers only grow. The last [`MOST_VERSIONS`] are kept, as far as they
//! fit, for looking back and for going back: an earlier text is published again as a new version.
//!
//! Everything else in the store expires, for counts fill up again and bans end. The rulebook does not: a
//! fleet that was down for a month should find its rules. A store that loses it all the same, because it
//! keeps nothing on disk or a replica had not heard of the last version, is given it
//! [back](Rulebook::put_back) by any process that knows it.
//!
//! This folder has the words, what is said to the script and what it says. [`Rulebook`] speaks them through
//! the driver.

mod error;
mod kept;
mod message;

pub use error::RulebookError;
pub use kept::{KeptRules, KeptVersion};
pub(crate) use message::{Answer, Question, script};

#[cfg(doc)]
use crate::Rulebook;

/// How many versions are kept.
pub const MOST_VERSIONS: usize = 100;

/// How long a text may be, in bytes: as long as a rule file may.
pub const LONGEST_RULES: u64 = 16 << 20;

/// How long all texts together may be: the longest there can be, and the one before it.
const MOST_BYTES: u64 = 2 * LONGEST_RULES;
