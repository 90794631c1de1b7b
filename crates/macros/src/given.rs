//! Options that may be given once.

use proc_macro2::{Ident, Span};
use syn::{Error, Result};

/// An option that was given, or not.
pub(crate) struct Given<T>(Option<(Ident, T)>);

impl<T> Default for Given<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Given<T> {
    /// Takes a value; a second one is a mistake.
    pub(crate) fn set(&mut self, name: Ident, value: T) -> Result<()> {
        if self.0.is_some() {
            return Err(Error::new(name.span(), format!("`{name}` is given twice: keep one of them")));
        }
        self.0 = Some((name, value));
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    pub(crate) const fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Where its name stands, if it was given.
    pub(crate) fn span(&self) -> Option<Span> {
        self.0.as_ref().map(|(name, _)| name.span())
    }
}
