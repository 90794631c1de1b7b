//! From a refusal to what a function returns.

use super::Limited;

/// What a limited function can return when it is refused: a `Result` whose error can be made from
/// [`Limited`].
#[diagnostic::on_unimplemented(
    message = "a limited function that returns `{Self}` has nothing to return when it is refused",
    label = "cannot be made from `sluicegate::Limited`",
    note = "name a function with the same arguments to be called instead: `#[limit(..., on_limit = fallback)]`",
    note = "or return a `Result` whose error implements `From<sluicegate::Limited>`"
)]
pub trait FromLimited {
    /// What is returned to a call that was refused.
    fn from_limited(limited: Limited) -> Self;
}

// Without it rustc would speak of the error type alone, and not of `on_limit`.
#[diagnostic::do_not_recommend]
impl<T, E: From<Limited>> FromLimited for Result<T, E> {
    fn from_limited(limited: Limited) -> Self {
        Err(limited.into())
    }
}

/// What is returned to a call that was refused.
#[cold]
pub fn refuse<R: FromLimited>(limited: Limited) -> R {
    R::from_limited(limited)
}
