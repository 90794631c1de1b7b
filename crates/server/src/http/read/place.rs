//! Where in the JSON the reader is.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use super::Field;

/// Where the reader is, so that a fault can say where it was found. Keeping it up costs next to nothing: names
/// that are not known beforehand are put down only when something is wrong with them.
#[derive(Default)]
pub(super) struct Place {
    /// The check in the list.
    pub(super) index: Cell<Option<usize>>,
    pub(super) field: Cell<Option<Field>>,
    /// A field that nobody knows, or the name of an entry.
    name: RefCell<Option<String>>,
}

impl Place {
    /// Puts down a name that something is wrong with.
    pub(super) fn name(&self, name: &str) {
        *self.name.borrow_mut() = Some(name.to_owned());
    }

    /// As RFC 6901 has it.
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        if let Some(index) = self.index.get() {
            // Writing to a string does not fail.
            let _ = write!(pointer, "/checks/{index}");
        }
        if let Some(field) = self.field.get() {
            pointer.push('/');
            pointer.push_str(field.name());
        }
        if let Some(name) = &*self.name.borrow() {
            pointer.push('/');
            pointer.push_str(&escaped(name));
        }
        pointer
    }
}

/// A name in a pointer, cut where it is too long to be of use.
fn escaped(name: &str) -> String {
    const LONGEST: usize = 200;
    let shown: String = name.chars().take(LONGEST).collect();
    shown.replace('~', "~0").replace('/', "~1")
}
