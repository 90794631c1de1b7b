//! Where connections sleep of which nothing is expected for a while.
//!
//! A connection that is awake is a task, a wire and an entry in the runtime's list of sockets: some two kilobytes,
//! however little it does. Asleep it is a socket, its place at the door, and when it was last heard of. The sockets of
//! all sleepers of a thread are watched together; whoever has something to say is woken, and goes on as before.
//!
//! Connections under TLS do not sleep: what the encryption has to remember is larger than all that could be saved.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use sluicegate_door::{Asleep, Late, Resting};
use sluicegate_engine::Timestamp;
use sluicegate_listen::Stop;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::visit::Visit;
use crate::thread::Thread;

/// How often it is looked who has slept for too long.
const ROUND: Duration = Duration::from_secs(1);

/// What is heard of those who leave.
const LEAVING: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// How many are woken at once.
const CALLS: usize = 256;

/// The sleepers of one thread.
pub(crate) struct Dormitory {
    /// What watches their sockets.
    watch: OwnedFd,
    beds: Mutex<Beds>,
}

#[derive(Default)]
struct Beds {
    /// By the numbers of their sockets, which are small and given out anew.
    by_socket: Vec<Option<Box<Sleeper>>>,
    /// Whether nobody looks after sleepers any more.
    are_closed: bool,
}

/// A connection that sleeps. There are many of them: what one holds is worth counting.
pub(super) struct Sleeper {
    pub(super) connection: Asleep,
    /// Who the client is.
    pub(super) address: IpAddr,
    /// When it was last heard of.
    pub(super) since: Timestamp,
    /// Counted as one at rest.
    pub(super) resting: Resting,
}

/// Allocators serve two sizes where this is crossed, and the next is a quarter larger.
const _: () = assert!(size_of::<Sleeper>() <= 128, "a sleeper has grown");

impl Dormitory {
    /// An empty one, if the system has what it takes.
    pub(crate) fn new() -> Option<Self> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(Self { watch, beds: Mutex::default() })
    }

    /// Takes a connection in, of this thread or of another; gives it back if it cannot sleep here.
    pub(super) fn take_in(&self, sleeper: Sleeper) -> Option<Sleeper> {
        let socket = sleeper.connection.as_fd();
        let Ok(bed) = usize::try_from(socket.as_raw_fd()) else { return Some(sleeper) };
        let mut beds = self.beds.lock();
        // Once: who has been called is on its way.
        let called = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        if beds.are_closed || epoll::add(&self.watch, socket, epoll::EventData::new_u64(bed as u64), called).is_err() {
            return Some(sleeper);
        }
        if beds.by_socket.len() <= bed {
            beds.by_socket.resize_with(bed + 1, || None);
        }
        beds.by_socket[bed] = Some(Box::new(sleeper));
        None
    }

    /// What the runtime hears calls by.
    fn calls(&self) -> Option<AsyncFd<OwnedFd>> {
        let watch = self.watch.try_clone().ok()?;
        // SAFETY: an `OwnedFd` is the same file as long as it lives, and it lives in what is returned, which gives it
        // out by no means that could close it: the runtime never knows a file under a number that is another's.
        #[expect(unsafe_code, reason = "the proof stands above")]
        unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) }.ok()
    }

    /// Looks after the sleepers of a thread until it stops; then all of them are woken, to be served a last time.
    pub(crate) async fn attend(thread: Arc<Thread>, mut stop: watch::Receiver<Stop>) {
        let Some(dormitory) = thread.dormitory() else { return };
        let Some(calls) = dormitory.calls() else { return };
        let mut stopped = pin!(stop.wait_for(|stop| *stop != Stop::Serve));
        let mut round = thread.shared.clock.sleep(ROUND);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                called = calls.readable() => {
                    let Ok(mut called) = called else { break };
                    while dormitory.wake_called(&thread) {}
                    called.clear_ready();
                }
                () = &mut round => {
                    dormitory.send_away_late(&thread);
                    round = thread.shared.clock.sleep(ROUND);
                }
            }
        }
        let closed = Beds { are_closed: true, ..Beds::default() };
        let last = std::mem::replace(&mut *dormitory.beds.lock(), closed);
        last.by_socket.into_iter().flatten().for_each(|sleeper| dormitory.wake(*sleeper, &thread));
    }

    /// Wakes some of those who have something to say; answers whether there were any.
    fn wake_called(&self, thread: &Arc<Thread>) -> bool {
        let mut calls = Vec::with_capacity(CALLS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(&self.watch, spare_capacity(&mut calls), Some(&at_once)).is_err() {
            return false;
        }
        for call in &calls {
            let bed = usize::try_from(call.data.u64()).unwrap_or(usize::MAX);
            let sleeper = self.beds.lock().by_socket.get_mut(bed).and_then(Option::take);
            if let Some(sleeper) = sleeper {
                // A crowd that leaves at once is not woken for it.
                let heard = call.flags;
                if heard.intersects(LEAVING) && sleeper.connection.has_left() {
                    continue;
                }
                self.wake(*sleeper, thread);
            }
        }
        !calls.is_empty()
    }

    /// Goes on with a connection. One that the system has lost is closed.
    fn wake(&self, sleeper: Sleeper, thread: &Arc<Thread>) {
        let is_unwatched = epoll::delete(&self.watch, sleeper.connection.as_fd()).is_ok();
        if is_unwatched && let Ok(visit) = Visit::woken(sleeper, thread) {
            thread.guests.spawn(visit.serve_on());
        }
    }

    /// Closes connections that have slept for too long.
    fn send_away_late(&self, thread: &Arc<Thread>) {
        let now = thread.shared.clock.now();
        let is_late = |sleeper: &mut Box<Sleeper>| now >= sleeper.since + sleeper.resting.host().patience().idle;
        for bed in &mut self.beds.lock().by_socket {
            if let Some(sleeper) = bed.take_if(is_late) {
                sleeper.resting.host().closed_late(Late::Idle);
            }
        }
    }
}
