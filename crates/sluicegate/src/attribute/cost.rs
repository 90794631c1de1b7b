//! What a call says it costs.

/// A number that can be a cost.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no cost",
    label = "must be an unsigned number",
    note = "give a `u64`, or another unsigned number: `cost = items.len()`"
)]
pub trait Cost {
    /// The cost.
    fn cost(&self) -> u64;
}

macro_rules! unsigned {
    ($($number:ty),*) => {$(
        impl Cost for $number {
            fn cost(&self) -> u64 {
                // Larger than any limit either way.
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

/// What a call costs.
pub fn cost(cost: &(impl Cost + ?Sized)) -> u64 {
    cost.cost()
}
