//! Conversion between refusals and sqlx errors.

use std::io;

use sqlx::Error;

use crate::bulkhead::BulkheadRefusal;

/// Returns the refusal in an sqlx error, if a bulkhead refused the statement. Other errors come from the database or
/// from its pool.
///
/// sqlx has no error variant for this case, so the refusal is wrapped in an I/O error of kind `ResourceBusy`. The
/// statement was not sent.
///
/// ```
/// # fn handle(error: sqlx::Error) -> u16 {
/// match sluicegate::bulkhead::refusal(&error) {
///     Some(_refusal) => 503, // refused by the bulkhead
///     None => 500,
/// }
/// # }
/// # assert_eq!(handle(sqlx::Error::PoolTimedOut), 500);
/// ```
pub fn refusal(error: &Error) -> Option<&BulkheadRefusal> {
    match error {
        Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

pub(super) fn refused(refusal: BulkheadRefusal) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::ResourceBusy, refusal))
}
