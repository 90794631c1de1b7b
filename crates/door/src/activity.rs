//! What a connection is doing, and until when it may go on doing it.
//!
//! A connection is in one of three states: requests are under way, the head of the next one is being read,
//! or it is idle. The first is the service's business; the other two have a deadline. Here they are noted
//! by those who see them change, from whatever task; the [`Watchman`](crate::watchman::Watchman) keeps the
//! deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use smallvec::SmallVec;

/// The state of one connection.
pub(crate) struct Activity {
    state: Mutex<State>,
    /// Whether answers are to say that there will be no more.
    closing: AtomicBool,
    clock: ClockHandle,
}

struct State {
    under_way: usize,
    /// Without requests under way: whether the next one's head has begun.
    head_begun: bool,
    /// Since when that is so, or when something was last written.
    since: Timestamp,
    /// Whether no request has come yet, so that nothing that is written can be an answer.
    is_new: bool,
    /// Bytes of HTTP/2 need not belong to a head, nor to an answer.
    http2: bool,
    /// Bytes of HTTP/2 may belong to a stream that was handed over, of which we see nothing else.
    tunnel: bool,
    /// Whether the last request had no body, so that nothing of it can be left to read.
    bodiless: bool,
    /// Since when the client has not taken what is to be written, if it does not.
    blocked: Option<Timestamp>,
    /// Answers of HTTP/2 whose data was taken, and when it last moved; they have not been asked for more.
    handed_out: SmallVec<[(u64, Timestamp); 1]>,
    next_hand_out: u64,
}

/// A connection without requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// A request's head has begun then.
    Head(Timestamp),
    /// Nothing has come since then.
    Idle {
        /// Since when.
        since: Timestamp,
        /// Whether everything that was sent has been read, for certain.
        settled: bool,
    },
}

/// A request that is under way. Dropping it ends it.
pub(crate) struct UnderWay(Arc<Activity>);

impl Activity {
    /// A connection that has just begun: its first head is awaited.
    pub(crate) fn new(clock: ClockHandle) -> Arc<Self> {
        let state = State {
            under_way: 0,
            head_begun: true,
            since: clock.now(),
            is_new: true,
            http2: false,
            tunnel: false,
            bodiless: true,
            blocked: None,
            handed_out: SmallVec::new(),
            next_hand_out: 0,
        };
        Arc::new(Self { state: Mutex::new(state), closing: AtomicBool::new(false), clock })
    }

    /// A request's head is complete.
    pub(crate) fn begin(self: &Arc<Self>, http2: bool, bodiless: bool) -> UnderWay {
        let mut state = self.state.lock();
        state.under_way += 1;
        state.head_begun = false;
        state.is_new = false;
        state.http2 = http2;
        state.bodiless = bodiless;
        UnderWay(Arc::clone(self))
    }

    /// Bytes have come.
    pub(crate) fn read(&self) {
        let mut state = self.state.lock();
        if state.under_way == 0 && !state.head_begun && !state.http2 {
            state.head_begun = true;
            state.since = self.clock.now();
        } else if state.tunnel {
            self.used(&mut state);
        }
    }

    /// Bytes have gone: the end of an answer, if no request is under way. On HTTP/2 the client can have
    /// bytes sent without any request, by a ping.
    pub(crate) fn written(&self) {
        let mut state = self.state.lock();
        state.blocked = None;
        if !state.http2 || state.tunnel {
            self.used(&mut state);
        }
    }

    /// Bytes could not go: the client does not read.
    pub(crate) fn blocked(&self) {
        let mut state = self.state.lock();
        if state.blocked.is_none() {
            state.blocked = Some(self.clock.now());
        }
    }

    /// Bytes of an answer on HTTP/2 have gone.
    pub(crate) fn answered(&self) {
        self.used(&mut self.state.lock());
    }

    /// A stream of HTTP/2 was handed over. Which bytes are of it is not known from now on.
    pub(crate) fn tunnelled(&self) {
        self.state.lock().tunnel = true;
    }

    /// Data of an answer was taken, and there is more. Dropping what is returned notes that it was asked for.
    pub(crate) fn hand_out(self: &Arc<Self>) -> HandedOut {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let id = state.next_hand_out;
        state.next_hand_out += 1;
        state.handed_out.push((id, now));
        HandedOut { activity: Arc::clone(self), id }
    }

    /// Some of it has moved.
    pub(crate) fn moved(&self, id: u64) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some((_, since)) = state.handed_out.iter_mut().find(|(known, _)| *known == id) {
            *since = now;
        }
    }

    /// Since when the client has not read on, if it does not.
    pub(crate) fn unread_since(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        state.handed_out.iter().map(|(_, since)| *since).chain(state.blocked).min()
    }

    /// From now on answers say that they are the last.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn used(&self, state: &mut State) {
        if state.under_way == 0 && !state.head_begun {
            state.since = self.clock.now();
        }
    }

    /// What it waits for, and since when. `None` while requests are under way, or answers still to be read.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        let state = self.state.lock();
        match (state.under_way, state.head_begun) {
            // Its last answer has not gone yet. Of HTTP/2 answers tell that themselves: what is blocked may be the
            // answers to pings, with which nobody may put off a deadline.
            _ if state.blocked.is_some() && !state.http2 && !state.is_new => None,
            (0, true) => Some(Quiet::Head(state.since)),
            (0, false) => Some(Quiet::Idle { since: state.since, settled: state.bodiless && !state.http2 }),
            _ => None,
        }
    }
}

impl UnderWay {
    pub(crate) const fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

/// Data of an answer that the client has yet to read.
pub(crate) struct HandedOut {
    activity: Arc<Activity>,
    id: u64,
}

impl HandedOut {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        if let Some(position) = state.handed_out.iter().position(|(id, _)| *id == self.id) {
            state.handed_out.swap_remove(position);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.since = self.0.clock.now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    fn connection() -> (ManualClock, Arc<Activity>) {
        let clock = ManualClock::new();
        (clock.clone(), Activity::new(clock.into()))
    }

    #[test]
    fn the_first_head_is_awaited_from_the_beginning() {
        let (clock, activity) = connection();
        let begun = clock.now();
        clock.advance(Duration::from_secs(9));
        activity.read(); // a byte now and then changes nothing
        activity.written(); // nor does the greeting of HTTP/2
        assert_eq!(activity.quiet(), Some(Quiet::Head(begun)));
    }

    #[test]
    fn between_requests_it_is_idle_until_a_byte_comes() {
        let (clock, activity) = connection();
        let request = activity.begin(false, true);
        activity.read(); // of the body
        assert_eq!(activity.quiet(), None);
        clock.advance(Duration::from_secs(100));
        drop(request);
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: clock.now(), settled: true }));
        clock.advance(Duration::from_secs(1));
        activity.written(); // the end of the answer
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: clock.now(), settled: true }));
        clock.advance(Duration::from_secs(59));
        activity.read();
        let begun = clock.now();
        clock.advance(Duration::from_secs(5));
        activity.read();
        activity.written();
        assert_eq!(activity.quiet(), Some(Quiet::Head(begun)));
    }

    #[test]
    fn frames_of_http2_are_no_head() {
        let (clock, activity) = connection();
        let (one, two) = (activity.begin(true, true), activity.begin(true, true));
        drop(one);
        assert_eq!(activity.quiet(), None);
        drop(two);
        let idle = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.read();
        activity.written(); // the answer to a ping
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: idle, settled: false }));
        activity.answered();
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: clock.now(), settled: false }));
        clock.advance(Duration::from_secs(1));
        activity.tunnelled();
        activity.read();
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: clock.now(), settled: false }));
    }
    #[test]
    fn pings_whose_answers_nobody_reads_put_off_nothing() {
        let clock = ManualClock::new();
        let activity = Activity::new(clock.clone().into());
        let begun = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.blocked();
        assert_eq!(activity.quiet(), Some(Quiet::Head(begun)));
        drop(activity.begin(true, true));
        let idle = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.written();
        activity.blocked();
        assert_eq!(activity.quiet(), Some(Quiet::Idle { since: idle, settled: false }));
        // On HTTP/1 it is an answer.
        drop(activity.begin(false, true));
        assert_eq!(activity.quiet(), None);
    }
}
