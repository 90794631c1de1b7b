//! Server side: rules in front of a service.
//!
//! A request passes the layer as follows:
//! 1. The layer state maps it to a rule request: client, path, headers, attributes.
//! 2. The sluice decides. If the rule queues, the request waits in its future, not in the service:
//!    others are not blocked.
//! 3. Refused: the response is rendered and the service is not called. Admitted: the service is called,
//!    and its response gets the rate-limit headers.
//! 4. The guard is kept in the body until that has been sent or dropped. Bandwidth rules pace the body,
//!    and rules with an actual cost read it from the response.
//!
//! Permits are taken in `call` and not in `poll_ready`: a ready service need not be called, and would hold a
//! permit for nothing.

mod body;
mod builder;
mod future;
mod layer;
mod peer;
mod service;
mod state;

pub use body::{ActualCost, LimitBody};
pub use builder::LimitLayerBuilder;
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::LimitService;
