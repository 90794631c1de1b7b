//! A refusal as an error of sqlx, and back.

use std::io;

use sqlx::Error;

use crate::pool::Refusal;

/// The refusal behind an error of sqlx, if a bulkhead made it. Everything else is an error of the
/// database or of its pool.
///
/// sqlx has no error for it, so it travels as an I/O error of kind `ResourceBusy`: like one, it says
/// nothing about the statement, and the statement has not begun.
///
/// ```
/// # fn handle(error: sqlx::Error) -> u16 {
/// match sluicegate::pool::refusal(&error) {
///     Some(_refusal) => 503, // busy: shed load
///     None => 500,
/// }
/// # }
/// # assert_eq!(handle(sqlx::Error::PoolTimedOut), 500);
/// ```
pub fn refusal(error: &Error) -> Option<&Refusal> {
    match error {
        Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

pub(super) fn refused(refusal: Refusal) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::ResourceBusy, refusal))
}
