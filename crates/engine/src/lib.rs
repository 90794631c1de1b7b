//! Sluicegate's decisions.
pub mod algorithm;
pub mod limit;
pub mod rule;
pub mod time;
pub use limit::{Limit, LimitError, Rate};
pub use time::Timestamp;
