//! Rule repository: versioned rule text in the store, so that all processes change together.
//!
//! ```text
//!  admin API -- publish(text, author, comment, based on 6) --> rules.lua --> version 7  one hash, one script
//!  every process, each second -- current_version? -----------> 7: differs from the local one
//!                             -- current() ------------------> text, applied as a whole
//! ```
//!
//! Each published text gets the next number, and numbers only grow. The last [`MAX_VERSIONS`] are retained, if
//! they fit, for inspection and rollback: an earlier text is published again as a new version.
//!
//! Everything else in the store expires, since counts refill and bans end. The rules do not: a
//! cluster that was down for a month should find its rules. If the store loses them nevertheless, because it
//! has no persistence or a replica lacked the last version, any process that knows them
//! [restores](RuleRepository::restore) them.
//!
//! This module encodes the script calls and decodes the replies. [`RuleRepository`] sends them through
//! the store client.

mod error;
mod message;
mod version;

pub use error::RuleRepositoryError;
pub(crate) use message::{RuleQuery, RuleReply, script};
pub use version::{StoredRules, StoredVersion};

#[cfg(doc)]
use crate::RuleRepository;

/// Maximum retained versions.
pub const MAX_VERSIONS: usize = 100;

/// Maximum length of a text in bytes; equals that of a rule file.
pub const MAX_RULES_BYTES: u64 = 16 << 20;

/// Maximum length of all texts together: the longest possible one, and its predecessor.
const MAX_TOTAL_BYTES: u64 = 2 * MAX_RULES_BYTES;
