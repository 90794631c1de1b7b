//! Clients' connections over HTTP/1, from the first byte to the last.
//!
//! ```text
//!  entrance ──> first bytes ──> HTTP/2, which is hyper's
//!                     │
//!                     v      head ──> exchange ──> answer
//!     asleep <────> busy:     ^                       │
//!                             └───────────────────────┘
//! ```
//! One task is all there is to a connection: it reads the head, goes through the [exchange](crate::exchange) with
//! it, drives the connection to the server meanwhile, and writes the answer. So an answer that comes in one piece
//! costs one wake-up, one read and one write on each side. A connection that waits for its next request for a while is
//! at rest: it has no buffers then, and if it is not encrypted, not even a task; it sleeps in the thread's
//! [dormitory](Dormitory).
//!
//! hyper is not used here, as it is for HTTP/2: its connections talk to a service through channels, bring a task or
//! a driver of their own, and keep several kilobytes for each. That costs more than all that the gateway itself does
//! to a request.

mod answering;
mod date;
mod deadlines;
mod dormitory;
mod visit;
mod wire;

pub(crate) use dormitory::Dormitory;
pub(crate) use visit::Visit;
pub(crate) use wire::SharedBody;
