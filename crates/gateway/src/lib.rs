//! The gateway: a reverse proxy with flow control, in front of any program.

mod alarm;
mod answer;
mod body;
mod client;
mod demo;
mod exchange;
mod failure;
mod gateway;
mod head;
mod identity;
mod inbound;
mod lane;
mod log;
mod neighbours;
mod places;
mod route;
mod shared;
mod tally;
mod thread;
mod turns;
mod upstream;
mod wire;

pub use gateway::{Gateway, GatewayError, Running, Vitals};
pub use identity::IdentityError;
pub use log::LogError;
pub use route::RouteError;
pub use upstream::{Health, ServerStatus, UpstreamError, UpstreamStatus};
