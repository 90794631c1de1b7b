//! Where connections come in, for every server of the house.
//!
//! - A [`Process`] knows what it was given by the one before it, opens the sockets that servers listen at, and starts
//!   its own successor: a restart loses no connection.
//! - Behind a socket stands an [`Entrance`]: it reads the PROXY line, if there must be one, and shakes hands in TLS,
//!   if that is spoken there. What comes out is a [`Stream`].
//! - [`serve_until`] lets connections in on one thread until it is told to [`Stop`], and then sees them out.

mod entrance;
mod hall;
mod inherited;
mod lookout;
mod process;
mod proxy_line;
mod renewals;
mod restart;
mod sockets;
mod stream;
mod threads;
mod tls;

#[cfg(test)]
mod tests;

pub use entrance::{EnterError, Entered, Entrance, EntranceError};
pub use hall::{Guests, Report, Stop, serve_until};
pub use inherited::InheritedError;
pub use process::{Process, ProcessError};
pub use proxy_line::ProxyLineError;
pub use renewals::{Tell, reload_certificates, watch_certificates};
pub use restart::{Notice, PrivateFolder, RestartError};
pub use sockets::{ListenError, Socket, Sockets};
pub use stream::Stream;
pub use threads::{Idle, Threads, cores, spread};
pub use tls::{CertificateError, Renewal, TlsError};
