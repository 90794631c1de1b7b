//! Runtime of the `#[limit]` attribute: its error type, and the rules it did not find.
//!
//! The attribute is documented at [`limit`](macro@crate::limit). A refused call returns a [`Limited`] error, unless
//! `on_limit` names a fallback function:
//!
//! ```
//! use sluicegate::{Limited, limit};
//!
//! #[limit("1/1h")]
//! fn report() -> Result<&'static str, Limited> {
//!     Ok("all is well")
//! }
//!
//! assert_eq!(report()?, "all is well");
//! let limited = report().unwrap_err();
//! assert!(limited.to_string().starts_with("over the limit 1/1h of "));
//! assert!(limited.retry_after().is_some());
//! # Ok::<(), Limited>(())
//! ```

mod attributes;
mod call_site;
mod client_ip;
mod completion;
mod cost;
mod into_error;
mod keyed;
mod limited;
mod rule;
mod unkeyed;
mod wait;

pub use limited::Limited;
pub use rule::missing_rules;

/// Items that the macro expansion uses. Not a public interface.
#[doc(hidden)]
pub mod expansion {
    pub use std::option::Option;
    pub use std::result::Result;
    pub use std::time::Duration;
    pub use std::vec::Vec;

    pub use sluicegate_engine::algorithm::{LimitArguments, ParameterValue};
    pub use sluicegate_engine::{Limit, LimitError, Rate};

    pub use super::attributes::{AttributeName, attribute_value};
    pub use super::call_site::{CallSite, InlineLimits, call_site};
    pub use super::client_ip::client_ip;
    pub use super::completion::{DefaultCompletion, Returned, completion_by, run, typed};
    pub use super::cost::cost;
    pub use super::into_error::refuse;
    pub use super::keyed::KeyedByValue;
    pub use super::rule::NamedRule;
    pub use super::unkeyed::UnkeyedLimiter;
}
