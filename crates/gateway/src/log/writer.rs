//! Writer thread of the access log; the only thread that waits for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sluicegate_config::settings::AccessLogFormat;

use super::buffer::LineBuffer;
use super::destination::LogDestination;

/// Maximum time until a line is written, and retry interval after a failed write.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// Memory retained between batches; a burst may have needed more.
const RETAINED_BATCH_BYTES: usize = 256 << 10;

/// Commands to the writer thread.
#[derive(Default)]
pub(super) struct WriterQueue {
    commands: Mutex<WriterCommands>,
    wakeup: Condvar,
    /// Failed writes.
    pub(super) write_errors: AtomicU64,
}

#[derive(Default)]
struct WriterCommands {
    /// Buffers that are not registered with the writer yet.
    buffers: Vec<Arc<LineBuffer>>,
    /// Set to skip the wait.
    wake: bool,
    reopen: bool,
    stop: bool,
}

impl WriterQueue {
    pub(super) fn register(&self, buffer: Arc<LineBuffer>) {
        self.commands.lock().buffers.push(buffer);
    }

    /// Wakes the writer: a buffer is full.
    #[cold]
    pub(super) fn wake(&self) {
        self.send(|_| {});
    }

    pub(super) fn reopen(&self) {
        self.send(|commands| commands.reopen = true);
    }

    /// Flushes everything and stops the writer.
    pub(super) fn stop(&self) {
        self.send(|commands| commands.stop = true);
    }

    fn send(&self, change: impl FnOnce(&mut WriterCommands)) {
        let mut commands = self.commands.lock();
        change(&mut commands);
        commands.wake = true;
        drop(commands);
        self.wakeup.notify_one();
    }

    fn wait(&self) -> WriterCommands {
        let mut commands = self.commands.lock();
        if !commands.wake {
            self.wakeup.wait_for(&mut commands, FLUSH_INTERVAL);
        }
        mem::take(&mut commands)
    }
}

/// Takes lines from the buffers and writes them to the destination.
pub(super) struct FileWriter {
    queue: Arc<WriterQueue>,
    format: AccessLogFormat,
    destination: LogDestination,
    buffers: Vec<Arc<LineBuffer>>,
    batch: WriteBatch,
}

impl FileWriter {
    pub(super) fn new(queue: Arc<WriterQueue>, format: AccessLogFormat, destination: LogDestination) -> Self {
        Self { queue, format, destination, buffers: Vec::new(), batch: WriteBatch::default() }
    }

    /// Writes until stopped.
    pub(super) fn run(mut self) {
        let mut reopen = false;
        loop {
            let commands = self.queue.wait();
            self.buffers.extend(commands.buffers);
            reopen |= commands.reopen;
            if reopen {
                // Lines written before the command belong to the old file.
                self.flush();
                let reopened = self.destination.reopen();
                self.count_error(&reopened);
                if reopened.is_ok() {
                    self.batch.rewind_to_line();
                    reopen = false;
                }
            }
            self.flush();
            if commands.stop {
                break;
            }
        }
    }

    /// Writes all buffered lines; failed writes are retried the next time.
    fn flush(&mut self) {
        let written = self.batch.write(&mut self.destination.file);
        let mut is_ok = written.is_ok();
        self.count_error(&written);
        let mut failed = Ok(());
        let (format, batch, file) = (self.format, &mut self.batch, &mut self.destination.file);
        self.buffers.retain(|buffer| {
            if !is_ok {
                return true;
            }
            let is_open = buffer.take(format, &mut batch.bytes);
            failed = batch.write(file);
            is_ok = failed.is_ok();
            is_open
        });
        self.count_error(&failed);
    }

    fn count_error(&self, result: &io::Result<()>) {
        if result.is_err() {
            self.queue.write_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Complete lines that are being written; empty once all were written.
#[derive(Default)]
struct WriteBatch {
    bytes: Vec<u8>,
    /// Bytes written so far.
    written: usize,
}

impl WriteBatch {
    fn write(&mut self, file: &mut File) -> io::Result<()> {
        while let remaining @ [_, ..] = &self.bytes[self.written..] {
            match file.write(remaining) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(RETAINED_BATCH_BYTES);
        Ok(())
    }

    /// Moves back to the start of a partly written line, so that a new file gets the whole line.
    fn rewind_to_line(&mut self) {
        let before = &self.bytes[..self.written];
        self.written = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    }
}
