//! The threads of a server, each with a runtime of its own.

use std::io;
use std::num::NonZeroUsize;
use std::thread::{self, JoinHandle};

use sluicegate_door::{Doorway, FrontDoor};
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::hall::{Report, Stop};
use crate::sockets::Socket;

/// How many threads a server has unless it is told: one for each core.
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Spreads the sockets of several listeners over threads: the `i`th of each goes to thread `i % threads`, with what
/// belongs to its listener.
pub fn spread<T: Clone>(listeners: Vec<(Vec<Socket>, T)>, threads: NonZeroUsize) -> Vec<Vec<(Socket, T)>> {
    let mut given: Vec<Vec<_>> = (0..threads.get()).map(|_| Vec::new()).collect();
    for (sockets, behind) in listeners {
        for (number, socket) in sockets.into_iter().enumerate() {
            given[number % threads].push((socket, behind.clone()));
        }
    }
    given
}

/// What a thread does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps until something comes.
    Sleeps,
    /// Others that are ready to run on its core go first, and only then it sleeps. Where clients are on the same
    /// machine, those others are they: when they have had their turn there is much to do at once, and nobody had to be
    /// woken. Where nobody else is ready, it costs one call into the system for each sleep.
    LetsOthersRun,
}

/// Threads that serve until they are told to stop.
#[derive(Debug)]
pub struct Threads {
    stop: watch::Sender<Stop>,
    running: Vec<JoinHandle<Report>>,
}

impl Threads {
    /// Starts a thread for each of the shares; `work` is called in each, within its runtime, with the doors made of its
    /// share's sockets.
    pub fn start<T, W, F>(
        name: &str,
        shares: Vec<Vec<(Socket, T)>>,
        doorway: &Doorway,
        idle: Idle,
        work: W,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
        W: Fn(usize, Vec<(FrontDoor, T)>, watch::Receiver<Stop>) -> F + Clone + Send + 'static,
        F: Future<Output = Report> + 'static,
    {
        let (stop, stopped) = watch::channel(Stop::default());
        let mut running = Vec::new();
        for (number, share) in shares.into_iter().enumerate() {
            let mut runtime = Builder::new_current_thread();
            if idle == Idle::LetsOthersRun {
                runtime.on_thread_park(thread::yield_now);
            }
            let runtime = runtime.enable_all().build()?;
            let (doorway, stopped, work) = (doorway.clone(), stopped.clone(), work.clone());
            let serve = move || {
                runtime.block_on(async move {
                    // What listens on one thread only fails where nothing would work.
                    let doors = share.into_iter().filter_map(|(socket, behind)| Some((socket.door(&doorway)?, behind)));
                    work(number, doors.collect(), stopped).await
                })
            };
            running.push(thread::Builder::new().name(format!("{name}-{number}")).spawn(serve)?);
        }
        Ok(Self { stop, running })
    }

    /// Tells all to stop, and waits until they have.
    pub fn end(self, how: Stop) -> Report {
        self.stop.send_replace(how);
        let reports = self.running.into_iter().map(|thread| thread.join().unwrap_or_default());
        reports.fold(Report::default(), Report::and)
    }
}
