//! The gateway: a reverse proxy with flow control, in front of any program.

mod alarm;
mod body;
mod client;
mod demo;
mod exchange;
mod failure;
mod gateway;
mod head;
mod lane;
mod listen;
mod log;
mod places;
mod restart;
mod route;
mod shared;
mod stream;
mod thread;
mod upstream;

pub use gateway::{Gateway, GatewayError, Running};
pub use log::LogError;
pub use route::RouteError;
pub use upstream::UpstreamError;
