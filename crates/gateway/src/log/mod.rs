//! The access log, one line for each request, and the ids by which requests are found again.
//!
//! ```text
//! LogThread::write --> the thread's buffer --+
//! LogThread::write --> the thread's buffer --+--> one writer thread --> file or standard output
//! LogThread::write --> the thread's buffer --+
//! ```
//! No request ever waits for a disk: a line is formatted straight into the buffer of its thread, and the writer swaps
//! full buffers for empty ones. If the disk cannot keep up, a buffer fills to its bound; what comes then is lost as
//! whole lines, and the log itself says how many.

mod buffer;
mod common;
mod destination;
mod escape;
mod format;
mod handle;
mod json;
mod line;
mod moment;
mod number;
pub(crate) mod request_id;
mod writer;

#[cfg(test)]
mod tests;

pub use destination::LogError;
pub(crate) use handle::{AccessLog, LogThread};
pub(crate) use line::{Line, ServedBy, Verdict};
