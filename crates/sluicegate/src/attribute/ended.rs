//! What a rule learns from a call that has ended.

use sluicegate_engine::gate::Ending;

/// What a call returned.
pub struct Returned<'a, T>(pub &'a T);

impl<T, E> Returned<'_, Result<T, E>> {
    /// An error is a sign of strain: laws look at failures beyond the usual, so those that always come do no harm.
    pub const fn ending(&self) -> Ending {
        match self.0 {
            Ok(_) => Ending::Well,
            Err(_) => Ending::Failed,
        }
    }
}

/// What is no `Result` cannot fail. A method of the type itself comes before one of a trait, which is how the two are told
/// apart where the type is known.
pub trait Untold {
    /// It was answered.
    fn ending(&self) -> Ending {
        Ending::Well
    }
}

impl<T> Untold for Returned<'_, T> {}

/// By what the function says of its errors.
pub fn ending_by<T, E>(returned: &Result<T, E>, is_strain: impl FnOnce(&E) -> bool) -> Ending {
    match returned {
        Err(error) if is_strain(error) => Ending::Failed,
        _ => Ending::Well,
    }
}

/// Nothing, of the type that a body returns.
pub const fn typed<T>() -> Option<T> {
    None
}

/// Runs a body. It may return what it borrows from what it was given, as it runs once.
#[inline]
pub fn run<T>(body: impl FnOnce() -> T) -> T {
    body()
}
