//! Errors of the rule repository.

use crate::error::{CallError, StoreError, StoreErrorKind};

/// Error of a rule repository operation. Nothing has changed, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleRepositoryError {
    /// The current version is not the one the text is based on.
    #[error("{}, but the change is based on another version: review it and try again", describe_current(*.current))]
    Conflict {
        /// The current version; 0 if there is none.
        current: u64,
    },
    /// The text is too long.
    #[error("the rules have {bytes} bytes; the maximum is {max}")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The maximum length.
        max: u64,
    },
    /// Author or comment is too long.
    #[error("the {field} has {bytes} bytes; the maximum is {max}")]
    MetadataTooLong {
        /// `author` or `comment`.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// Author or comment contains a line break or another control character.
    #[error("the {field} has a control character ({}): write it on one line", .character.escape_unicode())]
    ControlCharacter {
        /// `author` or `comment`.
        field: &'static str,
        /// The first such character.
        character: char,
    },
    /// Not a valid version number.
    #[error("{number} is not a valid version number")]
    InvalidVersion {
        /// The number.
        number: u64,
    },
    /// The breaker is open: the store fails and is not called until a probe succeeds.
    #[error("the circuit breaker of the store is open")]
    Degraded,
    /// No reply in time. A write may have succeeded nevertheless.
    #[error("the store did not respond in time; a write may have been applied: check before you retry")]
    Timeout,
    /// The store client of this process has been closed.
    #[error("the store client is closed")]
    Closed,
    /// The store returned an error, or was not reached. If the connection was lost, a write may have succeeded
    /// nevertheless.
    #[error("{kind}: {detail}")]
    Store {
        /// The kind of error.
        kind: StoreErrorKind,
        /// Message of the store or the system.
        detail: String,
    },
    /// The key holds a foreign value. It is not modified: it may be another program's data.
    #[error("`{key}` in the store is not a rule repository ({reason}): remove it, or set another `prefix`")]
    Foreign {
        /// The key.
        key: String,
        /// The reason.
        reason: String,
    },
}

fn describe_current(current: u64) -> String {
    match current {
        0 => "no version is stored".to_owned(),
        _ => format!("the current version is {current}"),
    }
}

impl RuleRepositoryError {
    /// The error for a malformed reply.
    pub(crate) fn invalid_reply() -> Self {
        StoreError::invalid_reply("unexpected reply of the rule repository").into()
    }
}

impl From<StoreError> for RuleRepositoryError {
    fn from(error: StoreError) -> Self {
        Self::Store { kind: error.kind, detail: error.detail.to_string() }
    }
}

impl From<CallError> for RuleRepositoryError {
    fn from(failure: CallError) -> Self {
        match failure {
            CallError::Deadline => Self::Timeout,
            CallError::Degraded | CallError::QueueFull => Self::Degraded,
            CallError::Closed => Self::Closed,
            CallError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_remedy() {
        let cases = [
            (
                RuleRepositoryError::Conflict { current: 7 },
                "the current version is 7, but the change is based on another version",
            ),
            (RuleRepositoryError::Conflict { current: 0 }, "no version is stored, but the change"),
            (RuleRepositoryError::ControlCharacter { field: "comment", character: '\n' }, "control character (\\u{a})"),
            (RuleRepositoryError::from(CallError::Deadline), "check before you retry"),
        ];
        for (error, part) in cases {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
