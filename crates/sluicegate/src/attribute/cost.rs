//! Cost of a call.

/// Unsigned integers that can be a cost.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a cost",
    label = "must be an unsigned integer",
    note = "use a `u64` or another unsigned integer: `cost = items.len()`"
)]
pub trait Cost {
    /// The cost.
    fn cost(&self) -> u64;
}

macro_rules! unsigned {
    ($($number:ty),*) => {$(
        impl Cost for $number {
            fn cost(&self) -> u64 {
                // A larger number exceeds any limit as well.
                u64::try_from(*self).unwrap_or(u64::MAX)
            }
        }
    )*};
}
unsigned!(u64, usize, u128);

macro_rules! small {
    ($($number:ty),*) => {$(
        impl Cost for $number {
            fn cost(&self) -> u64 {
                (*self).into()
            }
        }
    )*};
}
small!(u8, u16, u32);

impl<C: Cost + ?Sized> Cost for &C {
    fn cost(&self) -> u64 {
        (**self).cost()
    }
}

/// Returns the cost of a call.
pub fn cost(cost: &(impl Cost + ?Sized)) -> u64 {
    cost.cost()
}
