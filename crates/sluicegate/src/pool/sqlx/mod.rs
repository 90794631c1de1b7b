//! Statements in flight on a pool of sqlx, per class.
//!
//! ```text
//! query(..).fetch_all(&reads) -> place of the class -> connection of the pool -> rows -> both given back
//! ```
//!
//! The place is taken before a connection is, so whoever waits for a place keeps no connection from
//! others. It is held until the last row has come, or the stream of rows is dropped.

mod by_statement;
mod class;
mod guards;
mod in_place;
mod limited;
mod refused;
mod statement;

pub use by_statement::ByStatement;
pub use class::LimitedClass;
pub use guards::{LimitedConnection, LimitedTransaction};
pub use limited::{LimitedPool, TooManyPlaces};
pub use refused::refusal;
pub use statement::StatementKind;
