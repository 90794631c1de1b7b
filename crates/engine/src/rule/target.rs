//! Which requests a rule is for.

use thiserror::Error;

/// Service, methods, host and path a rule is for; whatever is not given matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Target {
    /// The service, exactly.
    pub service: Option<String>,
    /// Any of these methods.
    pub methods: Vec<String>,
    /// The host, exactly, without port.
    pub host: Option<String>,
    /// The path pattern, such as `/api/orders/{id}` or `/files/**`.
    pub path: Option<String>,
}

/// Why a text is not a target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TargetError {
    /// Byte offset of the fault in the text.
    pub at: usize,
    /// Length of the faulty part in bytes.
    pub len: usize,
    /// What is wrong, and the remedy.
    pub message: String,
}
