//! Options that may be set only once.

use proc_macro2::{Ident, Span};
use syn::{Error, Result};

/// An option with the name and value it was set to, if it was set.
pub(crate) struct SetOnce<T>(Option<(Ident, T)>);

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> SetOnce<T> {
    /// Sets the value; a second value is an error.
    pub(crate) fn set(&mut self, name: Ident, value: T) -> Result<()> {
        if self.0.is_some() {
            return Err(Error::new(name.span(), format!("`{name}` is set twice: keep one of them")));
        }
        self.0 = Some((name, value));
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Span of the option's name, if it is set.
    pub(crate) fn span(&self) -> Option<Span> {
        self.0.as_ref().map(|(name, _)| name.span())
    }
}
