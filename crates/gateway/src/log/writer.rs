//! The one thread that waits for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sluicegate_config::settings::LogFormat;

use super::buffer::Buffer;
use super::destination::Destination;

/// How long a line lies around at most, and after how long a disk that failed is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How much memory is kept from one batch to the next; a rush may have needed more.
const KEPT: usize = 256 << 10;

/// What the writer is asked for.
#[derive(Default)]
pub(super) struct Desk {
    wishes: Mutex<Wishes>,
    news: Condvar,
    /// How many times the disk failed.
    pub(super) failures: AtomicU64,
}

#[derive(Default)]
struct Wishes {
    /// Buffers the writer does not know yet.
    buffers: Vec<Arc<Buffer>>,
    /// Come now.
    now: bool,
    reopen: bool,
    stop: bool,
}

impl Desk {
    pub(super) fn watch(&self, buffer: Arc<Buffer>) {
        self.wishes.lock().buffers.push(buffer);
    }

    /// A buffer is full.
    #[cold]
    pub(super) fn call(&self) {
        self.wish(|_| {});
    }

    pub(super) fn reopen(&self) {
        self.wish(|wishes| wishes.reopen = true);
    }

    /// Write what there is, and end.
    pub(super) fn stop(&self) {
        self.wish(|wishes| wishes.stop = true);
    }

    fn wish(&self, wish: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.wishes.lock();
        wish(&mut wishes);
        wishes.now = true;
        drop(wishes);
        self.news.notify_one();
    }

    fn wait(&self) -> Wishes {
        let mut wishes = self.wishes.lock();
        if !wishes.now {
            self.news.wait_for(&mut wishes, PAUSE);
        }
        mem::take(&mut wishes)
    }
}

/// Takes lines from buffers and writes them.
pub(super) struct Writer {
    desk: Arc<Desk>,
    format: LogFormat,
    destination: Destination,
    buffers: Vec<Arc<Buffer>>,
    batch: Batch,
}

impl Writer {
    pub(super) fn new(desk: Arc<Desk>, format: LogFormat, destination: Destination) -> Self {
        Self { desk, format, destination, buffers: Vec::new(), batch: Batch::default() }
    }

    /// Writes until told to stop.
    pub(super) fn run(mut self) {
        let mut reopen = false;
        loop {
            let wishes = self.desk.wait();
            self.buffers.extend(wishes.buffers);
            reopen |= wishes.reopen;
            if reopen {
                // What came before the wish belongs to the old file.
                self.write();
                let reopened = self.destination.reopen();
                self.note(&reopened);
                if reopened.is_ok() {
                    self.batch.back_to_line();
                    reopen = false;
                }
            }
            self.write();
            if wishes.stop {
                break;
            }
        }
    }

    /// Writes all that lies in the buffers; what the disk refuses is tried again the next time.
    fn write(&mut self) {
        let written = self.batch.write(&mut self.destination.file);
        let mut is_well = written.is_ok();
        self.note(&written);
        let mut failed = Ok(());
        let (format, batch, file) = (self.format, &mut self.batch, &mut self.destination.file);
        self.buffers.retain(|buffer| {
            if !is_well {
                return true;
            }
            let stays = buffer.take(format, &mut batch.bytes);
            failed = batch.write(file);
            is_well = failed.is_ok();
            stays
        });
        self.note(&failed);
    }

    fn note(&self, result: &io::Result<()>) {
        if result.is_err() {
            self.desk.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whole lines on their way to the disk; empty once they are there.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// How many of them are there already.
    written: usize,
}

impl Batch {
    fn write(&mut self, file: &mut File) -> io::Result<()> {
        while let rest @ [_, ..] = &self.bytes[self.written..] {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        Ok(())
    }

    /// Goes back to the beginning of a line that is there in part: another file gets all of it.
    fn back_to_line(&mut self) {
        let before = &self.bytes[..self.written];
        self.written = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    }
}
