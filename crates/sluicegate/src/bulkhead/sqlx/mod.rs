//! Limits the statements in flight on an sqlx pool, per class.
//!
//! ```text
//! query(..).fetch_all(&reads) -> permit of the class -> connection of the pool -> rows -> both released
//! ```
//!
//! The permit is acquired before the connection, so a waiting statement holds no connection. The permit is held until
//! the last row is read, or the stream of rows is dropped.

mod class_pool;
mod error;
mod guards;
mod limited_pool;
mod statement;
mod statement_pool;
mod with_permit;

pub use class_pool::ClassPool;
pub use error::refusal;
pub use guards::{LimitedConnection, LimitedTransaction};
pub use limited_pool::{CapacityError, LimitedPool};
pub use statement::StatementKind;
pub use statement_pool::StatementPool;
