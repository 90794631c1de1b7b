//! Access log, one line per request, and request IDs.
//!
//! ```text
//! LogWriter::write --> buffer of the thread --+
//! LogWriter::write --> buffer of the thread --+--> one writer thread --> file or standard output
//! LogWriter::write --> buffer of the thread --+
//! ```
//! Requests never wait for the disk: a line is formatted directly into the buffer of its thread, and the writer
//! thread swaps full buffers for empty ones. If the disk is too slow, a buffer fills up to its limit; further
//! lines are dropped as a whole, and the log itself reports how many.
//!
//! - `access_log`: handle, and writers for threads.
//! - `entry`: values of a line.
//! - `buffer`: per-thread buffer.
//! - `writer`: writer thread.
//! - `destination`: file or standard output.
//! - `format`, `json`, `common`: formats.
//! - `escape`, `format_number`, `timestamp`: escaping and formatting.
//! - `request_id`: request IDs.

mod access_log;
mod buffer;
mod common;
mod destination;
mod entry;
mod escape;
mod format;
mod format_number;
mod json;
pub(crate) mod request_id;
mod timestamp;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use access_log::{AccessLog, LogWriter};
pub use destination::LogError;
pub(crate) use entry::{LogEntry, LogVerdict, ServedBy};
