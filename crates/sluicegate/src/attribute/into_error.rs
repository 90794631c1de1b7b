//! Conversion of a refusal to the return type of the function.

use super::Limited;

/// Return type of a limited function: a `Result` whose error implements `From<Limited>`. See [`Limited`].
#[diagnostic::on_unimplemented(
    message = "a limited function that returns `{Self}` cannot report a refusal",
    label = "cannot be converted from `sluicegate::Limited`",
    note = "add a fallback with the same arguments: `#[limit(..., on_limit = fallback)]`",
    note = "or return a `Result` whose error implements `From<sluicegate::Limited>`"
)]
pub trait FromLimited {
    /// Converts a refusal to the return value.
    fn from_limited(limited: Limited) -> Self;
}

// Without this, rustc would report only the error type, and not suggest `on_limit`.
#[diagnostic::do_not_recommend]
impl<T, E: From<Limited>> FromLimited for Result<T, E> {
    fn from_limited(limited: Limited) -> Self {
        Err(limited.into())
    }
}

/// Returns the value for a refused call.
#[cold]
pub fn refuse<R: FromLimited>(limited: Limited) -> R {
    R::from_limited(limited)
}
