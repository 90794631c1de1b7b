//! What stands behind `#[limit]`: the errors it gives, and the rules it did not find.
//!
//! The attribute is described at [`limit`](macro@crate::limit). A call that it refuses gets a [`Limited`],
//! unless `on_limit` names a function to be called instead:
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

mod by_key;
mod client_ip;
mod cost;
mod ended;
mod facts;
mod limited;
mod line;
mod named;
mod place;
mod refuse;
mod together;

pub use limited::Limited;
pub use named::missing_rules;

/// What the attribute's expansion calls. Nothing in here is meant to be written by hand.
#[doc(hidden)]
pub mod expansion {
    pub use std::option::Option;
    pub use std::result::Result;
    pub use std::time::Duration;
    pub use std::vec::Vec;

    pub use sluicegate_engine::algorithm::Alignment;
    pub use sluicegate_engine::{Limit, LimitError, Rate};

    pub use super::by_key::ByKey;
    pub use super::client_ip::client_ip;
    pub use super::cost::cost;
    pub use super::ended::{Returned, Untold, ending_by, run, typed};
    pub use super::facts::{Name, fact};
    pub use super::named::Named;
    pub use super::place::{Limits, Place, place};
    pub use super::refuse::refuse;
    pub use super::together::Together;
}
