//! Tower layers that enforce rules.
//!
//! | side | layer |
//! |---|---|
//! | requests that come in | [`LimitLayer`] |

mod incoming;

pub use incoming::{ActualCost, LimitBody, LimitFuture, LimitLayer, LimitLayerBuilder, LimitService};
