//! The gateway: a reverse proxy with flow control, in front of any program.

mod alarm;
mod body;
mod client;
mod demo;
mod exchange;
mod failure;
mod gateway;
mod head;
mod identity;
mod lane;
mod listen;
mod log;
mod places;
mod process;
mod restart;
mod route;
mod shared;
mod stream;
mod thread;
mod upstream;

pub use gateway::{Gateway, GatewayError, Running};
pub use identity::IdentityError;
pub use listen::{CertificateError, EntranceError, InheritedError, ListenError, TlsError};
pub use log::LogError;
pub use process::{Process, ProcessError};
pub use restart::RestartError;
pub use route::RouteError;
pub use thread::Report;
pub use upstream::{Health, ServerStatus, UpstreamError, UpstreamStatus};
