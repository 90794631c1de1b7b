//! Session state of a client connection.

use super::transaction::QueuedCommands;

/// The session of one client.
#[derive(Debug)]
pub(super) struct RespSession {
    /// Connection id.
    pub(super) id: i64,
    /// Set when the client may run commands.
    pub(super) authenticated: bool,
    /// Client name.
    pub(super) name: Box<[u8]>,
    /// Commands queued since `MULTI`.
    pub(super) transaction: Option<Box<QueuedCommands>>,
}

impl RespSession {
    /// Creates a session in its initial state.
    pub(super) fn new(id: i64, authenticated: bool) -> Self {
        Self { id, authenticated, name: Box::default(), transaction: None }
    }

    /// Sets the client name: a limited number of visible characters without spaces.
    pub(super) fn set_name(&mut self, name: &[u8]) -> Result<(), InvalidClientName> {
        const MAX_BYTES: usize = 256;
        if name.len() > MAX_BYTES || !name.iter().all(u8::is_ascii_graphic) {
            return Err(InvalidClientName);
        }
        self.name = name.into();
        Ok(())
    }
}

/// The client name is invalid: it would break client lists.
#[derive(Debug, thiserror::Error)]
#[error("ERR Client names cannot contain spaces, newlines or special characters.")]
pub(super) struct InvalidClientName;
