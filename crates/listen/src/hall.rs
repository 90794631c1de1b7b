//! Lets connections in on one thread until it is told to stop, and then sees them out.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_door::{Connection, FrontDoor, Host};
use sluicegate_engine::clock::ClockHandle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::lookout::{Lively, Lookout};

/// How a server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stop {
    /// Not yet.
    #[default]
    Serve,
    /// Another process goes on at the same sockets: who waits there is its.
    HandOver,
    /// For good: who waits is told.
    Close,
}

/// How many connections there were at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Connections that were open when the server began to stop, and ended by themselves.
    pub finished: usize,
    /// Connections that were cut off when the time was up.
    pub aborted: usize,
}

impl Report {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { finished: self.finished + other.finished, aborted: self.aborted + other.aborted }
    }
}

/// The connections of one thread that are being served. Clones are the same.
#[derive(Clone, Debug)]
pub struct Guests {
    present: Arc<Mutex<Present>>,
    closing: watch::Sender<()>,
    /// Never looked at: whoever has a copy of it sees the change, however late it is made.
    closed: watch::Receiver<()>,
    /// What stays awake for them.
    lookout: Option<Arc<Lookout>>,
}

impl Default for Guests {
    fn default() -> Self {
        let (closing, closed) = watch::channel(());
        Self { present: Arc::default(), closing, closed, lookout: None }
    }
}

#[derive(Debug, Default)]
struct Present {
    all: JoinSet<Role>,
    /// Guests that have gone since it was last asked.
    gone: usize,
}

impl Present {
    /// Waits until nobody is left.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(gone) = ready!(self.all.poll_join_next(context)) {
            self.note(&gone);
        }
        Poll::Ready(())
    }

    /// Counts those who have gone, and leaves it to others to wait.
    fn note_gone(&mut self) {
        while let Some(gone) = self.all.try_join_next() {
            self.note(&gone);
        }
    }

    fn note(&mut self, gone: &Result<Role, JoinError>) {
        self.gone += usize::from(!matches!(gone, Ok(Role::Staff)));
    }
}

/// Who has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Guest,
    Staff,
}

impl Guests {
    /// Has the thread that this is called in look for more for so long after each thing that one of them does, before it
    /// sleeps.
    #[must_use]
    pub fn awaited_for(self, patience: Duration) -> Self {
        Self { lookout: Some(Lookout::begin(patience)), ..self }
    }

    /// How one of them hears that its thread stops: this changes.
    pub fn closing(&self) -> watch::Receiver<()> {
        self.closed.clone()
    }

    /// Serves one more.
    pub fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        match &self.lookout {
            Some(lookout) => self.add(Role::Guest, Lively::new(serving, lookout)),
            None => self.add(Role::Guest, serving),
        }
    }

    /// Does something for guests, and is waited for as they are, but is not one of them.
    pub fn spawn_staff(&self, working: impl Future<Output = ()> + Send + 'static) {
        self.add(Role::Staff, working);
    }

    fn add(&self, role: Role, future: impl Future<Output = ()> + Send + 'static) {
        let mut guests = self.present.lock();
        guests.note_gone();
        guests.all.spawn(async move {
            future.await;
            role
        });
    }

    /// Waits until all have gone, and answers how many guests have gone since it was last asked.
    async fn gone(&self) -> usize {
        std::future::poll_fn(|context| self.present.lock().poll_gone(context)).await;
        self.gone_so_far()
    }

    /// How many guests have gone since it was last asked.
    fn gone_so_far(&self) -> usize {
        let mut guests = self.present.lock();
        guests.note_gone();
        std::mem::take(&mut guests.gone)
    }

    /// Ends all, and answers how many there were.
    async fn cut_off(&self) -> usize {
        self.present.lock().all.abort_all();
        self.gone().await
    }
}

/// Lets connections in at all doors until told to stop, and then waits until all guests have gone, or `patience` is up.
///
/// `let_in` is given each connection with what its door came with; it [spawns](Guests::spawn) what serves it, which ends
/// its work when the receiver has changed.
pub async fn serve_until<D, F>(
    doors: Vec<(FrontDoor, D)>,
    guests: &Guests,
    mut stop: watch::Receiver<Stop>,
    patience: (Duration, &ClockHandle),
    let_in: F,
) -> Report
where
    D: Send + 'static,
    F: Fn(Connection, &D, &Arc<Host>, &watch::Receiver<()>) + Clone + Send + 'static,
{
    let mut accepting = JoinSet::new();
    for (door, behind) in doors {
        let (let_in, closed) = (let_in.clone(), guests.closing());
        let let_in = move |connection, host: &Arc<Host>| let_in(connection, &behind, host, &closed);
        accepting.spawn(accept(door, stop.clone(), let_in));
    }
    // An error means that nobody is left who could say it.
    drop(stop.wait_for(|stop| *stop != Stop::Serve).await);
    // Those who left before are nobody's affair any more.
    guests.gone_so_far();
    guests.closing.send_replace(());
    let mut report = Report::default();
    let mut left = async || {
        // Those who waited in line at the door come in until it has closed.
        while accepting.join_next().await.is_some() {}
        report.finished += guests.gone().await;
    };
    let (patience, clock) = patience;
    tokio::select! {
        biased;
        () = left() => {}
        () = clock.sleep(patience) => {}
    }
    report.finished += guests.gone_so_far();
    report.aborted = guests.cut_off().await;
    report
}

async fn accept(mut door: FrontDoor, mut stop: watch::Receiver<Stop>, let_in: impl Fn(Connection, &Arc<Host>)) {
    let host = Arc::new(door.host());
    let stopped = loop {
        tokio::select! {
            biased;
            stopped = stop.wait_for(|stop| *stop != Stop::Serve) => break stopped.map_or(Stop::Close, |stop| *stop),
            connection = door.accept() => let_in(connection, &host),
        }
    };
    if stopped == Stop::Close {
        return door.close().await;
    }
    while let Some(connection) = door.next_waiting().await {
        let_in(connection, &host);
    }
}
