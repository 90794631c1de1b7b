//! Extension slot of a rule set: data that an adapter caches per snapshot.
//!
//! The first request for it provides the factory. From then on the extension is created for every new rule set
//! before that becomes active, so that no request has to wait for it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::rule::Rule;

/// Extension of any type.
type AnyExtension = Box<dyn Any + Send + Sync>;

/// Creates an extension for a rule set.
type ExtensionFactory = Box<dyn Fn(&[Rule]) -> AnyExtension + Send + Sync>;

/// Extension of one rule set.
#[derive(Default)]
pub(super) struct RuleSetExtension {
    value: OnceLock<AnyExtension>,
    /// Factory, once it is known; shared by all successive rule sets.
    factory: Arc<OnceLock<ExtensionFactory>>,
}

impl RuleSetExtension {
    /// Extension for the next rule set, created now if the factory is known.
    pub(super) fn for_next(&self, rules: &[Rule]) -> Self {
        let factory = Arc::clone(&self.factory);
        let value = factory.get().map(|prepare| OnceLock::from(prepare(rules))).unwrap_or_default();
        Self { value, factory }
    }

    /// Extension of these rules; `None` if it has another type.
    #[inline]
    pub(super) fn get<T: Any + Send + Sync>(&self, rules: &[Rule], prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.value.get_or_init(|| self.make(rules, prepare)).downcast_ref()
    }

    #[cold]
    fn make<T: Any + Send + Sync>(&self, rules: &[Rule], prepare: fn(&[Rule]) -> T) -> AnyExtension {
        let prepare: ExtensionFactory = Box::new(move |rules| Box::new(prepare(rules)));
        self.factory.get_or_init(|| prepare)(rules)
    }
}
