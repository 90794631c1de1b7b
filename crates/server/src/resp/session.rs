//! What is known of a client while it is connected.

use super::transaction::Queued;

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number among all connections.
    pub(super) id: i64,
    /// Whether it may give commands.
    pub(super) authenticated: bool,
    /// What it calls itself.
    pub(super) name: Box<[u8]>,
    /// What waits for `EXEC`, if it is to come.
    pub(super) queued: Option<Box<Queued>>,
}

impl Session {
    /// A client that has said nothing yet.
    pub(super) fn new(id: i64, authenticated: bool) -> Self {
        Self { id, authenticated, name: Box::default(), queued: None }
    }

    /// Takes a name, if it is one: visible characters without spaces, and not too many of them.
    pub(super) fn rename(&mut self, name: &[u8]) -> Result<(), BadName> {
        const LONGEST: usize = 256;
        if name.len() > LONGEST || !name.iter().all(u8::is_ascii_graphic) {
            return Err(BadName);
        }
        self.name = name.into();
        Ok(())
    }
}

/// A name that would break lists of clients.
#[derive(Debug, thiserror::Error)]
#[error("ERR Client names cannot contain spaces, newlines or special characters.")]
pub(super) struct BadName;
