//! Handle of the access log.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, AccessLogFormat};

use super::buffer::{LineBuffer, PutResult};
use super::destination::{LogDestination, LogError};
use super::entry::LogEntry;
use super::writer::{FileWriter, WriterQueue};

/// Time that closing waits for a blocked disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The access log. Clones and [`LogWriter`]s share one log. [Closing](Self::close) it, or dropping the last of
/// them, flushes all lines.
#[derive(Clone)]
pub(crate) struct AccessLog(Arc<LogState>);

struct LogState {
    queue: Arc<WriterQueue>,
    format: AccessLogFormat,
    dropped_lines: AtomicU64,
    /// Closes when the writer thread has ended; carries no messages. `None` once that was awaited.
    writer_done: Mutex<Option<Receiver<Infallible>>>,
    close_timeout: Duration,
}

impl AccessLog {
    /// Opens the file and starts the writer thread.
    pub(crate) fn open(settings: &settings::AccessLog) -> Result<Self, LogError> {
        Self::start(LogDestination::open(&settings.file)?, settings.format, CLOSE_TIMEOUT)
    }

    pub(super) fn start(
        destination: LogDestination,
        format: AccessLogFormat,
        close_timeout: Duration,
    ) -> Result<Self, LogError> {
        let queue = Arc::new(WriterQueue::default());
        let writer = FileWriter::new(Arc::clone(&queue), format, destination);
        let (done_sender, writer_done) = mpsc::channel();
        let run = move || {
            writer.run();
            drop(done_sender);
        };
        thread::Builder::new().name("access-log".to_owned()).spawn(run).map_err(LogError::Thread)?;
        Ok(Self(Arc::new(LogState {
            queue,
            format,
            dropped_lines: AtomicU64::new(0),
            writer_done: Mutex::new(Some(writer_done)),
            close_timeout,
        })))
    }

    /// Creates a writer for one thread.
    pub(crate) fn writer(&self) -> LogWriter {
        let buffer = Arc::<LineBuffer>::default();
        self.0.queue.register(Arc::clone(&buffer));
        LogWriter { log: self.clone(), buffer }
    }

    /// Reopens the path after log rotation. Returns immediately.
    pub(crate) fn reopen(&self) {
        self.0.queue.reopen();
    }

    /// Flushes all lines and waits for that. To be called when no thread writes any more; other handles, for
    /// example for statistics, may live longer.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Lines dropped so far because the disk was too slow.
    pub(crate) fn dropped_lines(&self) -> u64 {
        self.0.dropped_lines.load(Ordering::Relaxed)
    }

    /// Failed writes. Their lines are kept and retried.
    pub(crate) fn write_errors(&self) -> u64 {
        self.0.queue.write_errors.load(Ordering::Relaxed)
    }
}

impl LogState {
    fn close(&self) {
        let Some(writer_done) = self.writer_done.lock().take() else { return };
        self.queue.stop();
        // Ended or timed out: nothing else can be done.
        let _ended = writer_done.recv_timeout(self.close_timeout);
    }
}

impl Drop for LogState {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writer of one worker thread, with a buffer of its own, so that worker threads do not contend for it.
pub(crate) struct LogWriter {
    log: AccessLog,
    buffer: Arc<LineBuffer>,
}

impl LogWriter {
    /// Writes a line. Never waits for the disk.
    pub(crate) fn write(&self, entry: &LogEntry<'_>) {
        let log = &*self.log.0;
        match self.buffer.put(log.format, entry) {
            PutResult::Buffered => {}
            PutResult::Full => log.queue.wake(),
            PutResult::Dropped => {
                log.dropped_lines.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.buffer.close();
    }
}
