//! Rates, durations and sizes: their values, notation and validation errors.

mod error;
pub mod parse;
mod rate;

use std::time::Duration;

pub use error::LimitError;
pub use rate::Rate;

use crate::time::saturating_nanos;

/// Maximum window: ten years.
const MAX_WINDOW: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Length of a window in nanoseconds; rejects zero and more than ten years.
pub(crate) fn window_nanos(window: Duration) -> Result<u64, LimitError> {
    if window.is_zero() {
        return Err(LimitError::zero("window"));
    }
    if window > MAX_WINDOW {
        return Err(LimitError::WindowTooLong { window });
    }
    Ok(saturating_nanos(window))
}
