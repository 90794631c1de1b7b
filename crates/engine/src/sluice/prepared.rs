//! What an adapter keeps prepared for a set of rules.
//!
//! The first who asks for it shows how it is made. From then on it is made for every new set of rules before
//! that is put in force, so that no request has to wait for it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::rule::Rule;

/// Anything an adapter may want.
type Anything = Box<dyn Any + Send + Sync>;

/// How it is made.
type Preparer = Box<dyn Fn(&[Rule]) -> Anything + Send + Sync>;

/// What is prepared for one set of rules.
#[derive(Default)]
pub(super) struct Prepared {
    value: OnceLock<Anything>,
    /// How it is made, once somebody has shown it; the same for all sets that follow each other.
    preparer: Arc<OnceLock<Preparer>>,
}

impl Prepared {
    /// What is prepared for the rules that come after these, made now if it is known how.
    pub(super) fn for_next(&self, rules: &[Rule]) -> Self {
        let preparer = Arc::clone(&self.preparer);
        let value = preparer.get().map(|prepare| OnceLock::from(prepare(rules))).unwrap_or_default();
        Self { value, preparer }
    }

    /// What was prepared for these rules; `None` if that is of another type.
    #[inline]
    pub(super) fn get<T: Any + Send + Sync>(&self, rules: &[Rule], prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.value.get_or_init(|| self.make(rules, prepare)).downcast_ref()
    }

    #[cold]
    fn make<T: Any + Send + Sync>(&self, rules: &[Rule], prepare: fn(&[Rule]) -> T) -> Anything {
        let prepare: Preparer = Box::new(move |rules| Box::new(prepare(rules)));
        self.preparer.get_or_init(|| prepare)(rules)
    }
}
