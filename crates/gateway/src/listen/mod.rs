//! The edge of the gateway: the sockets it listens at, and what a connection passes before HTTP begins.
//!
//! [`open`] gives every thread a socket of its own, first those that [`Inherited`] holds: handed over by systemd, or by
//! the process this one takes the place of. Behind a socket stands an [`Entrance`]: it reads the PROXY line, if there
//! must be one, and shakes hands in TLS, if that is spoken there.

mod entrance;
mod inherited;
mod proxy_line;
mod sockets;
mod tls;

#[cfg(test)]
mod tests;

pub(crate) use entrance::Entrance;
pub use entrance::EntranceError;
pub(crate) use inherited::Inherited;
pub use inherited::InheritedError;
pub use sockets::ListenError;
pub(crate) use sockets::open;
pub(crate) use tls::Renewal;
pub use tls::{CertificateError, TlsError};
