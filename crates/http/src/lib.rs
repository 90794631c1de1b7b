//! What HTTP says about a request and its limits. No I/O, no runtime.
//!
//! - [`advice`]: what an answer asks of whoever calls next

pub mod advice;
