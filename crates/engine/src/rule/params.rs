//! What a path pattern captured.
//!
//! ```
//! use sluicegate_engine::rule::{Params, PathPattern};
//!
//! let pattern = PathPattern::parse("/shops/{shop}/orders/{id}")?;
//! let mut params = Params::new();
//! assert!(pattern.capture("/shops/7/orders/42", &mut params));
//! assert_eq!(params.get("id"), Some("42"));
//! # Ok::<(), sluicegate_engine::rule::TargetError>(())
//! ```

use smallvec::SmallVec;

/// Parameters of a matched path, by name. Up to four need no memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params<'a> {
    captured: SmallVec<[(&'a str, &'a str); 4]>,
}

impl<'a> Params<'a> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// None, for good.
    #[inline]
    pub(crate) const fn none() -> &'static Params<'static> {
        static NONE: Params<'static> = Params { captured: SmallVec::new_const() };
        &NONE
    }

    /// Adds one.
    pub fn push(&mut self, name: &'a str, value: &'a str) {
        self.captured.push((name, value));
    }

    /// The value captured under this name.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.captured.iter().find(|(captured, _)| *captured == name).map(|(_, value)| *value)
    }

    /// All of them, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.captured.iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.captured.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.captured.len()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.captured.clear();
    }
}
