//! Restart without loss: a new process takes the place of this one, at the same sockets.
//!
//! ```text
//! this process                          its successor
//!   starts the program anew, hands over
//!   every listening socket        ----> takes them by address (LISTEN_FDS), reads the rules
//!   goes on serving                     begins to serve
//!   stops accepting, drains       <---- READY=1
//!   ends                                serves
//! ```
//!
//! Both have the very same sockets, not two sockets at one address: a client in a queue is accepted by whoever comes
//! first, and is not lost when this process closes its side. If the successor ends, or is not ready in time, it is
//! stopped and this process goes on as if nothing had happened.
//!
//! systemd hands over sockets and hears of readiness in the same way, so a successor needs to know little of who
//! started it: see [`Notices`].

mod folder;
mod notices;
mod program;
mod successor;

#[cfg(test)]
mod tests;

pub use folder::PrivateFolder;
pub use notices::Notice;
pub(crate) use notices::Notices;
pub(crate) use program::Program;
pub use successor::RestartError;
pub(crate) use successor::{STATE, take_over};
