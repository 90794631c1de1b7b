//! Tower layers that enforce rules.
//!
//! | side | layer |
//! |---|---|
//! | requests that come in | [`LimitLayer`] |
//! | requests that go out | [`outgoing`], and around reqwest `reqwest_middleware` (feature `reqwest`) |

mod incoming;
pub mod outgoing;
#[cfg(feature = "reqwest")]
pub mod reqwest_middleware;

pub use incoming::{ActualCost, LimitBody, LimitFuture, LimitLayer, LimitLayerBuilder, LimitService};
