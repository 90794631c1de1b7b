//! JSON pointer of the current decoding position.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use super::BodyField;

/// The current decoding position, to locate errors. Tracking is cheap: names that are not known in advance are
/// recorded only on error.
#[derive(Default)]
pub(super) struct JsonPointer {
    /// Index of the check in the list.
    pub(super) index: Cell<Option<usize>>,
    pub(super) field: Cell<Option<BodyField>>,
    /// An unknown field or the name of an entry.
    name: RefCell<Option<String>>,
}

impl JsonPointer {
    /// Records the name in error.
    pub(super) fn set_name(&self, name: &str) {
        *self.name.borrow_mut() = Some(name.to_owned());
    }

    /// Renders the pointer as in RFC 6901.
    pub(super) fn render(&self) -> String {
        let mut pointer = String::new();
        if let Some(index) = self.index.get() {
            // Writing to a string cannot fail.
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

/// Escapes a name for a pointer, truncated if too long.
fn escaped(name: &str) -> String {
    const MAX_BYTES: usize = 200;
    let excerpt: String = name.chars().take(MAX_BYTES).collect();
    excerpt.replace('~', "~0").replace('/', "~1")
}
