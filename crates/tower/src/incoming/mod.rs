//! The called side: rules in front of a service.
//!
//! A request's way through the layer:
//! 1. The gate turns it into what rules look at: client, path, headers, whatever they ask for.
//! 2. The sluice decides. Where the rule queues, the request waits in its future, not in the service:
//!    others go on.
//! 3. Refused: the answer is rendered, the service never hears of it. Admitted: the service is called,
//!    and its answer is dressed with what is left.
//! 4. What the outcome holds is kept in the body until that has been sent or dropped. The body passes no
//!    faster than the rules let it, and what the request cost is read off it where a rule says so.
//!
//! Permits are taken in `call` and not in `poll_ready`: who is ready need not call, and would keep a
//! permit for nothing.

mod body;
mod builder;
mod future;
mod gate;
mod held;
mod layer;
mod peer;
mod service;

pub use body::{ActualCost, LimitBody};
pub use builder::LimitLayerBuilder;
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::LimitService;
