//! Why the rulebook could not be read or written.

use crate::error::{Failure, StoreError, StoreErrorKind};

/// Why the rulebook could not be read or written. Nothing has changed, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulebookError {
    /// Another version is current than the one the text is based on.
    #[error("{}, not the one this is based on: look at it, and try again", present(*.current))]
    Overtaken {
        /// The current version; 0 if there is none.
        current: u64,
    },
    /// The text is too long.
    #[error("the rules have {bytes} bytes; {most} are the most that fit into the rulebook")]
    TooLong {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// Author or comment are too long.
    #[error("the {what} has {bytes} bytes; at most {most} are kept")]
    RemarkTooLong {
        /// Which of the two.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Author or comment have a line break or another control character.
    #[error("the {what} has a control character ({}): write it in one line", .character.escape_unicode())]
    ControlCharacter {
        /// Which of the two.
        what: &'static str,
        /// The first such character.
        character: char,
    },
    /// No version can have this number.
    #[error("{number} is no number of a version")]
    Number {
        /// The number.
        number: u64,
    },
    /// The store fails, and is left alone until a probe passes.
    #[error("the store fails and is not asked until it answers again")]
    Degraded,
    /// The answer did not come. What was to be written may have been written all the same.
    #[error("the store did not answer in time; what was to be written may stand there all the same: look first")]
    Silent,
    /// This process does not talk to the store any more.
    #[error("the connection to the store has been closed")]
    Closed,
    /// The store answered with an error, or was not reached. If the connection was lost, what was to be
    /// written may have been written all the same.
    #[error("{kind}: {detail}")]
    Store {
        /// What kind of error.
        kind: StoreErrorKind,
        /// What the store or the system said.
        detail: String,
    },
    /// At the rulebook's key stands something else. It is left alone: it may be dear to somebody.
    #[error("`{key}` in the store is no rulebook ({reason}): remove it, or set another `prefix`")]
    Foreign {
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

fn present(current: u64) -> String {
    match current {
        0 => "there is no version in the store".to_owned(),
        _ => format!("version {current} is the current one"),
    }
}

impl RulebookError {
    /// An answer that is not of the form that was agreed.
    pub(crate) fn unintelligible() -> Self {
        StoreError::unintelligible("it is none that a rulebook gives").into()
    }
}

impl From<StoreError> for RulebookError {
    fn from(error: StoreError) -> Self {
        Self::Store { kind: error.kind, detail: error.detail.to_string() }
    }
}

impl From<Failure> for RulebookError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Deadline => Self::Silent,
            Failure::Degraded | Failure::Overloaded => Self::Degraded,
            Failure::Closed => Self::Closed,
            Failure::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let cases = [
            (RulebookError::Overtaken { current: 7 }, "version 7 is the current one, not the one this is based on"),
            (RulebookError::Overtaken { current: 0 }, "there is no version in the store, not the one"),
            (RulebookError::ControlCharacter { what: "comment", character: '\n' }, "control character (\\u{a})"),
            (RulebookError::from(Failure::Deadline), "look first"),
        ];
        for (error, part) in cases {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
