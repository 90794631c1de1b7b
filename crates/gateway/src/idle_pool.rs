//! Parking of idle connections: drops the task and watches the socket with epoll.
//!
//! An active connection is a task, buffers and an entry in the runtime's reactor: about two kilobytes, even if
//! it does nothing. A parked connection is a socket, its connection permit and a timestamp. One epoll instance
//! watches all parked sockets of a worker; a socket that becomes readable is resumed as a task.
//!
//! Only the connections of this HTTP/1 loop are parked here, so the pool is not in `sluicegate-net`: connections that
//! hyper serves keep their task, and RESP connections keep the state of their session.
//!
//! TLS connections are not parked: the TLS state is larger than everything that could be saved.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::{ParkedGuard, ParkedSocket, Shutdown, TimeoutKind};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Interval of the check for expired connections.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Events of a peer that has closed.
const HANGUP_EVENTS: epoll::EventFlags =
    epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// Maximum number of events per epoll call.
const MAX_EVENTS: usize = 256;

/// Parked connections of one worker.
pub(crate) struct IdlePool {
    /// The epoll instance.
    poller: OwnedFd,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// Indexed by file descriptor; descriptors are small and reused.
    by_fd: Vec<Option<Box<ParkedConnection>>>,
    /// Set once parked connections are no longer watched.
    is_closed: bool,
}

/// A parked connection. There are many of them, so its size matters.
pub(crate) struct ParkedConnection {
    pub(crate) connection: ParkedSocket,
    /// The client's address.
    pub(crate) address: IpAddr,
    /// Start of the idle phase.
    pub(crate) since: Timestamp,
    /// Counts the connection as idle.
    pub(crate) idle_guard: ParkedGuard,
}

/// Allocators have a size class boundary here; the next class is a quarter larger.
const _: () = assert!(size_of::<ParkedConnection>() <= 128, "a parked connection has grown");

impl IdlePool {
    /// Creates an empty pool; `None` if epoll is not available.
    pub(crate) fn new() -> Option<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(Self { poller, slots: Mutex::default() })
    }

    /// Parks a connection of this worker or of another one; returns it if it cannot be parked.
    pub(crate) fn park(&self, parked: ParkedConnection) -> Option<ParkedConnection> {
        let socket = parked.connection.as_fd();
        let Ok(slot) = usize::try_from(socket.as_raw_fd()) else { return Some(parked) };
        let mut slots = self.slots.lock();
        // One-shot: a connection that is being resumed needs no further events.
        let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        if slots.is_closed
            || epoll::add(&self.poller, socket, epoll::EventData::new_u64(slot as u64), interest).is_err()
        {
            return Some(parked);
        }
        if slots.by_fd.len() <= slot {
            slots.by_fd.resize_with(slot + 1, || None);
        }
        slots.by_fd[slot] = Some(Box::new(parked));
        None
    }

    /// Registers the epoll instance with the runtime.
    fn readiness(&self) -> Option<AsyncFd<OwnedFd>> {
        let poller = self.poller.try_clone().ok()?;
        // SAFETY: an `OwnedFd` refers to the same file for as long as it lives. It is moved into the returned value,
        // which offers no way to close it, so the runtime never holds a descriptor number that belongs to another
        // file.
        #[expect(unsafe_code, reason = "see the SAFETY comment above")]
        unsafe { AsyncFd::register_with_interest(poller, Interest::READABLE) }.ok()
    }

    /// Watches the parked connections until shutdown; then resumes all of them, for a last request. `resume` takes over
    /// a connection that is no longer watched.
    pub(crate) async fn run(
        &self,
        clock: &ClockHandle,
        mut stop: watch::Receiver<Shutdown>,
        resume: impl Fn(ParkedConnection),
    ) {
        let Some(readiness) = self.readiness() else { return };
        let mut stopped = pin!(stop.wait_for(|stop| *stop != Shutdown::Running));
        let mut expiry = clock.sleep(EXPIRY_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                ready = readiness.readable() => {
                    let Ok(mut called) = ready else { break };
                    while self.resume_ready(&resume) {}
                    called.clear_ready();
                }
                () = &mut expiry => {
                    self.close_expired(clock.now());
                    expiry = clock.sleep(EXPIRY_INTERVAL);
                }
            }
        }
        let closed = Slots { is_closed: true, ..Slots::default() };
        let remaining = std::mem::replace(&mut *self.slots.lock(), closed);
        remaining.by_fd.into_iter().flatten().for_each(|parked| self.unwatch(*parked, &resume));
    }

    /// Resumes connections with pending events; returns true if there were any events.
    fn resume_ready(&self, resume: &impl Fn(ParkedConnection)) -> bool {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(&self.poller, spare_capacity(&mut events), Some(&no_wait)).is_err() {
            return false;
        }
        for event in &events {
            let slot = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let parked = self.slots.lock().by_fd.get_mut(slot).and_then(Option::take);
            if let Some(parked) = parked {
                // Connections that were only closed by the peer are dropped without being resumed.
                let flags = event.flags;
                if flags.intersects(HANGUP_EVENTS) && parked.connection.is_closed_by_peer() {
                    continue;
                }
                self.unwatch(*parked, resume);
            }
        }
        !events.is_empty()
    }

    /// Resumes a connection. A broken one is closed.
    fn unwatch(&self, parked: ParkedConnection, resume: &impl Fn(ParkedConnection)) {
        if epoll::delete(&self.poller, parked.connection.as_fd()).is_ok() {
            resume(parked);
        }
    }

    /// Closes connections that have exceeded the idle timeout.
    fn close_expired(&self, now: Timestamp) {
        let is_expired =
            |parked: &mut Box<ParkedConnection>| now >= parked.since + parked.idle_guard.server().timeouts().idle;
        for slot in &mut self.slots.lock().by_fd {
            if let Some(parked) = slot.take_if(is_expired) {
                parked.idle_guard.server().record_timeout(TimeoutKind::Idle);
            }
        }
    }
}
