//! Completion class of a call, as input for overload protection.

use sluicegate_engine::overload::Completion;

/// The return value of a call.
pub struct Returned<'a, T>(pub &'a T);

impl<T, E> Returned<'_, Result<T, E>> {
    /// An error counts as a failure. Control laws react to an unusual number of failures; a constant share of
    /// failures has no effect.
    pub const fn completion(&self) -> Completion {
        match self.0 {
            Ok(_) => Completion::Ok,
            Err(_) => Completion::Failed,
        }
    }
}

/// Completion of a value that is not a `Result`, which cannot fail. An inherent method has precedence over a trait
/// method, so this trait applies only to types without one.
pub trait DefaultCompletion {
    /// The call succeeded.
    fn completion(&self) -> Completion {
        Completion::Ok
    }
}

impl<T> DefaultCompletion for Returned<'_, T> {}

/// Classifies the result with the predicate of the function.
pub fn completion_by<T, E>(returned: &Result<T, E>, is_overload: impl FnOnce(&E) -> bool) -> Completion {
    match returned {
        Err(error) if is_overload(error) => Completion::Failed,
        _ => Completion::Ok,
    }
}

/// `None` of the type that the body returns, for type inference.
pub const fn typed<T>() -> Option<T> {
    None
}

/// Runs the body. As an `FnOnce`, the body may return borrows from its captures.
#[inline]
pub fn run<T>(body: impl FnOnce() -> T) -> T {
    body()
}
