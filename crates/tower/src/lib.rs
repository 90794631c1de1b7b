//! Tower layers that enforce Sluicegate's rules.
//!
//! - [`outgoing`]: the calling side, limits around requests that go out
//! - `reqwest_middleware`: the same around reqwest (feature `reqwest`)

pub mod outgoing;
#[cfg(feature = "reqwest")]
pub mod reqwest_middleware;
