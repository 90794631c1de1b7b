//! Zero-downtime restart: a new process replaces this one on the same listening sockets.
//!
//! ```text
//! this process                          its successor
//!   starts the program again, passes
//!   every listening socket        ----> takes them by address (LISTEN_FDS), reads the rules
//!   continues serving                   begins to serve
//!   stops accepting, drains       <---- READY=1
//!   exits                               serves
//! ```
//!
//! Both processes share the same sockets; they are not two sockets at one address. A queued connection is
//! accepted by either process and is not lost when this one closes its side. If the successor exits, or is not
//! ready in time, it is stopped and this process continues.
//!
//! systemd passes sockets and receives readiness in the same way, so a successor does not depend on the process
//! that started it: see [`ServiceNotifier`].

mod child;
mod executable;
mod private_dir;
mod sd_notify;

#[cfg(test)]
mod tests;

pub use child::RestartError;
pub(crate) use child::{STATE_FILE_VAR, start_successor};
pub(crate) use executable::Executable;
pub use private_dir::PrivateDir;
pub use sd_notify::ServiceNotice;
pub(crate) use sd_notify::ServiceNotifier;
