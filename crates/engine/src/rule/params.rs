//! Parameters captured by a path pattern.
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

/// Parameters of a matched path, by name. Up to four are stored without allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params<'a> {
    captured: SmallVec<[(&'a str, &'a str); 4]>,
}

impl<'a> Params<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// A static empty list.
    #[inline]
    pub(crate) const fn empty() -> &'static Params<'static> {
        static NONE: Params<'static> = Params { captured: SmallVec::new_const() };
        &NONE
    }

    /// Adds a parameter.
    pub fn push(&mut self, name: &'a str, value: &'a str) {
        self.captured.push((name, value));
    }

    /// Value of the parameter with this name.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.captured.iter().find(|(captured, _)| *captured == name).map(|(_, value)| *value)
    }

    /// All parameters, in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.captured.iter().copied()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.captured.is_empty()
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.captured.len()
    }

    /// Removes all parameters.
    pub fn clear(&mut self) {
        self.captured.clear();
    }
}
