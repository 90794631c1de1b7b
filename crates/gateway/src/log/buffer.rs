//! The lines of one thread on their way to the writer.

use std::mem;
use std::time::SystemTime;

use parking_lot::Mutex;
use sluicegate_config::settings::LogFormat;

use super::format;
use super::line::Line;

/// From here on the writer is called, before its time.
const FULL: usize = 64 << 10;
/// From here on lines are lost. The buffer grows over it by one line at most.
const BOUND: usize = 4 << 20;

/// Lines, until the writer takes them.
#[derive(Default)]
pub(super) struct Buffer(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// What came after these bytes and found no room.
    lost: Option<Lost>,
    is_closed: bool,
}

/// Lines that found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lines: u64,
    /// When the first of them would have been written.
    pub(super) first: SystemTime,
    /// And the last.
    pub(super) last: SystemTime,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is in the buffer.
    Kept,
    /// It is in the buffer, which should be taken away now.
    Full,
    /// There is no room.
    Lost,
}

impl Buffer {
    /// Formats a line straight into the buffer.
    pub(super) fn put(&self, format: LogFormat, line: &Line<'_>) -> Put {
        let mut pending = self.0.lock();
        let before = pending.bytes.len();
        // Once a line was lost, those behind it are too, until the buffer is taken: the note of them stands at its end.
        if before >= BOUND {
            let first = pending.lost.map_or(line.time, |lost| lost.first);
            let lines = pending.lost.map_or(1, |lost| lost.lines + 1);
            pending.lost = Some(Lost { lines, first, last: line.time });
            return Put::Lost;
        }
        format::line(format, &mut pending.bytes, line);
        if before < FULL && pending.bytes.len() >= FULL { Put::Full } else { Put::Kept }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.0.lock().is_closed = true;
    }

    /// Takes all lines, and leaves this empty memory for the next. Returns whether more may come.
    pub(super) fn take(&self, format: LogFormat, empty: &mut Vec<u8>) -> bool {
        debug_assert!(empty.is_empty(), "what is in it would be lost");
        let (lost, is_closed) = {
            let mut pending = self.0.lock();
            mem::swap(&mut pending.bytes, empty);
            (pending.lost.take(), pending.is_closed)
        };
        if let Some(lost) = lost {
            format::lost(format, empty, &lost);
        }
        !is_closed
    }
}
