//! Worker threads, each with its own runtime, listeners and connections.
//!
//! - `threads`: [`WorkerThreads`], one single-threaded runtime per thread
//! - `accept_loop`: [`serve_until`] accepts connections on one thread and drains them on [`Shutdown`]
//! - `busy_poll`: busy-polls for new work before a thread blocks

mod accept_loop;
mod busy_poll;
mod threads;

pub use accept_loop::{ConnectionTasks, DrainReport, Shutdown, serve_until};
pub use threads::{IdleStrategy, WorkerThreads, assign_sockets, default_threads};
