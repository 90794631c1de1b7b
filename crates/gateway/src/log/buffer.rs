//! Per-thread buffer of access-log lines.

use std::mem;
use std::time::SystemTime;

use parking_lot::Mutex;
use sluicegate_config::settings::AccessLogFormat;

use super::entry::LogEntry;
use super::format;

/// From this size on the writer is woken early.
const FLUSH_THRESHOLD_BYTES: usize = 64 << 10;
/// From this size on lines are dropped. The buffer exceeds it by at most one line.
const MAX_BUFFERED_BYTES: usize = 4 << 20;

/// Buffered lines of one thread, until the writer takes them.
#[derive(Default)]
pub(super) struct LineBuffer(Mutex<PendingLines>);

#[derive(Default)]
struct PendingLines {
    bytes: Vec<u8>,
    /// Lines dropped after these bytes.
    dropped: Option<DroppedLines>,
    is_closed: bool,
}

/// Lines that were dropped because the buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DroppedLines {
    pub(super) lines: u64,
    /// Time of the first dropped line.
    pub(super) first: SystemTime,
    /// Time of the last dropped line.
    pub(super) last: SystemTime,
}

/// Result of adding a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutResult {
    /// The line was buffered.
    Buffered,
    /// The line was buffered, and the buffer should be flushed now.
    Full,
    /// The buffer is full; the line was dropped.
    Dropped,
}

impl LineBuffer {
    /// Formats a line directly into the buffer.
    pub(super) fn put(&self, format: AccessLogFormat, entry: &LogEntry<'_>) -> PutResult {
        let mut pending = self.0.lock();
        let before = pending.bytes.len();
        // After a dropped line all others are dropped until the buffer is taken, so that the summary stands at its
        // end.
        if before >= MAX_BUFFERED_BYTES {
            let first = pending.dropped.map_or(entry.time, |dropped| dropped.first);
            let lines = pending.dropped.map_or(1, |dropped| dropped.lines + 1);
            pending.dropped = Some(DroppedLines { lines, first, last: entry.time });
            return PutResult::Dropped;
        }
        format::write_entry(format, &mut pending.bytes, entry);
        if before < FLUSH_THRESHOLD_BYTES && pending.bytes.len() >= FLUSH_THRESHOLD_BYTES {
            PutResult::Full
        } else {
            PutResult::Buffered
        }
    }

    /// Closes the buffer: no more lines will come.
    pub(super) fn close(&self) {
        self.0.lock().is_closed = true;
    }

    /// Swaps the lines with the empty vector `empty`. Returns true if more lines may come.
    pub(super) fn take(&self, format: AccessLogFormat, empty: &mut Vec<u8>) -> bool {
        debug_assert!(empty.is_empty(), "the buffered lines would be lost");
        let (dropped, is_closed) = {
            let mut pending = self.0.lock();
            mem::swap(&mut pending.bytes, empty);
            (pending.dropped.take(), pending.is_closed)
        };
        if let Some(dropped) = dropped {
            format::write_dropped(format, empty, &dropped);
        }
        !is_closed
    }
}
