//! The access log as the gateway holds it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, LogFormat};

use super::buffer::{Buffer, Put};
use super::destination::{Destination, LogError};
use super::line::Line;
use super::writer::{Desk, Writer};

/// How long the end waits for a disk that does not move.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where requests are noted. Its clones and [`LogThread`]s are one log. Whoever [ends](Self::end) it, or the last of
/// them to go, sees to it that all lines are written.
#[derive(Clone)]
pub(crate) struct AccessLog(Arc<Open>);

struct Open {
    desk: Arc<Desk>,
    format: LogFormat,
    lost: AtomicU64,
    /// Tells nothing, and closes when the writer has ended. Gone once somebody has waited for that.
    ended: Mutex<Option<Receiver<Infallible>>>,
    patience: Duration,
}

impl AccessLog {
    /// Opens the file and starts the writer.
    pub(crate) fn open(settings: &settings::AccessLog) -> Result<Self, LogError> {
        Self::start(Destination::open(&settings.file)?, settings.format, PATIENCE)
    }

    pub(super) fn start(destination: Destination, format: LogFormat, patience: Duration) -> Result<Self, LogError> {
        let desk = Arc::new(Desk::default());
        let writer = Writer::new(Arc::clone(&desk), format, destination);
        let (ends, ended) = mpsc::channel();
        let run = move || {
            writer.run();
            drop(ends);
        };
        thread::Builder::new().name("access-log".to_owned()).spawn(run).map_err(LogError::Thread)?;
        Ok(Self(Arc::new(Open { desk, format, lost: AtomicU64::new(0), ended: Mutex::new(Some(ended)), patience })))
    }

    /// For one thread to write by.
    pub(crate) fn thread(&self) -> LogThread {
        let buffer = Arc::<Buffer>::default();
        self.0.desk.watch(Arc::clone(&buffer));
        LogThread { log: self.clone(), buffer }
    }

    /// Leaves the file to whoever has renamed it, and goes on in a new one at the old place. Returns at once.
    pub(crate) fn reopen(&self) {
        self.0.desk.reopen();
    }

    /// Has everything written that was noted, and waits for that. To be called when no thread notes anything any more:
    /// whoever else knows the log, such as those who watch over it, may know it for longer.
    pub(crate) fn end(&self) {
        self.0.end();
    }

    /// How many lines were lost so far because the disk was too slow.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// How many times the disk refused to take lines. They are kept, and tried again.
    pub(crate) fn failures(&self) -> u64 {
        self.0.desk.failures.load(Ordering::Relaxed)
    }
}

impl Open {
    fn end(&self) {
        let Some(ended) = self.ended.lock().take() else { return };
        self.desk.stop();
        // Whether it has ended or cannot: there is nothing else to be done.
        let _ended = ended.recv_timeout(self.patience);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end();
    }
}

/// How one thread of the gateway writes: into a buffer of its own, for which no other thread of them competes.
pub(crate) struct LogThread {
    log: AccessLog,
    buffer: Arc<Buffer>,
}

impl LogThread {
    /// Notes a request. Never waits for the disk.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let log = &*self.log.0;
        match self.buffer.put(log.format, line) {
            Put::Kept => {}
            Put::Full => log.desk.call(),
            Put::Lost => {
                log.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.buffer.close();
    }
}
