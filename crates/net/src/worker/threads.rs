//! Worker threads of a server, each with its own single-threaded runtime (thread per core).

use std::io;
use std::num::NonZeroUsize;
use std::thread::{self, JoinHandle};

use crate::listener::{ConnectionLimits, LimitedListener};
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::accept_loop::{DrainReport, Shutdown};
use crate::process::Socket;

/// Default number of worker threads: one per core.
pub fn default_threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Assigns the sockets of several listeners to threads: the `i`th socket of each goes to thread `i % threads`,
/// with its listener's value.
pub fn assign_sockets<T: Clone>(listeners: Vec<(Vec<Socket>, T)>, threads: NonZeroUsize) -> Vec<Vec<(Socket, T)>> {
    let mut shares: Vec<Vec<_>> = (0..threads.get()).map(|_| Vec::new()).collect();
    for (sockets, context) in listeners {
        for (index, socket) in sockets.into_iter().enumerate() {
            shares[index % threads].push((socket, context.clone()));
        }
    }
    shares
}

/// Behaviour of a worker thread without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStrategy {
    /// Block until an event arrives.
    Block,
    /// Yield the core to other ready threads, then block. If the clients run on the same machine, they are those
    /// threads: after they have run, several requests are ready at once and no wakeup was needed. If no other thread
    /// is ready, it costs one system call per block.
    YieldFirst,
}

/// Worker threads that serve until shutdown.
#[derive(Debug)]
pub struct WorkerThreads {
    shutdown: watch::Sender<Shutdown>,
    handles: Vec<JoinHandle<DrainReport>>,
}

impl WorkerThreads {
    /// Starts a thread per share. `work` runs on each thread, inside its runtime, with the listeners made from its
    /// sockets.
    pub fn start<T, W, F>(
        name: &str,
        shares: Vec<Vec<(Socket, T)>>,
        limits: &ConnectionLimits,
        idle: IdleStrategy,
        work: W,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
        W: Fn(usize, Vec<(LimitedListener, T)>, watch::Receiver<Shutdown>) -> F + Clone + Send + 'static,
        F: Future<Output = DrainReport> + 'static,
    {
        let (stop, stopped) = watch::channel(Shutdown::default());
        let mut running = Vec::new();
        for (index, share) in shares.into_iter().enumerate() {
            let mut runtime = Builder::new_current_thread();
            if idle == IdleStrategy::YieldFirst {
                runtime.on_thread_park(thread::yield_now);
            }
            let runtime = runtime.enable_all().build()?;
            let (connection_limits, stopped, work) = (limits.clone(), stopped.clone(), work.clone());
            let serve = move || {
                runtime.block_on(async move {
                    // Creating a listener fails only if nothing would work on this thread.
                    let listeners = share
                        .into_iter()
                        .filter_map(|(socket, context)| Some((socket.listener(&connection_limits)?, context)));
                    work(index, listeners.collect(), stopped).await
                })
            };
            running.push(thread::Builder::new().name(format!("{name}-{index}")).spawn(serve)?);
        }
        Ok(Self { shutdown: stop, handles: running })
    }

    /// Signals shutdown to all threads and waits for them.
    pub fn join(self, mode: Shutdown) -> DrainReport {
        self.shutdown.send_replace(mode);
        let reports = self.handles.into_iter().map(|thread| thread.join().unwrap_or_default());
        reports.fold(DrainReport::default(), DrainReport::merge)
    }
}
