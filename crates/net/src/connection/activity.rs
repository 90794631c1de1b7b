//! Connection activity tracker: records what a connection is doing, for the timeout state machine.
//!
//! A connection is in one of three states: requests are in flight, the head of the next request is being read,
//! or it is idle. The service is responsible for the first; the other two have a timeout. State changes are
//! recorded here by the tasks that observe them; [`ConnectionTimer`](super::connection_timer::ConnectionTimer) enforces
//! the timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use smallvec::SmallVec;

use crate::timeouts::ReadPhase;

/// Activity state of one connection.
pub(crate) struct Activity {
    state: Mutex<ActivityState>,
    /// Set when responses must announce that the connection will close.
    closing: AtomicBool,
    clock: ClockHandle,
}

struct ActivityState {
    in_flight: usize,
    /// With no request in flight: true if the head of the next request has begun.
    head_started: bool,
    /// Time of the last state change, or of the last write.
    since: Timestamp,
    /// True until the first request arrives. Until then, nothing written can be a response.
    is_new: bool,
    /// HTTP/2 bytes need not belong to a request head or to a response.
    http2: bool,
    /// HTTP/2 bytes may belong to an upgraded stream, which is not observed otherwise.
    tunnel: bool,
    /// True if the last request had no body, so no part of it can remain unread.
    bodiless: bool,
    /// Time since which the client has not read pending output, if it is blocked.
    blocked: Option<Timestamp>,
    /// HTTP/2 response data that hyper has taken and has not asked to continue, each with its last progress.
    unread_data: SmallVec<[(u64, Timestamp); 1]>,
    next_unread_id: u64,
}

/// Guard for a request in flight. Dropping it ends the request.
pub(crate) struct InFlightGuard(Arc<Activity>);

impl Activity {
    /// Creates the state of a new connection, which waits for its first request head.
    pub(crate) fn new(clock: ClockHandle) -> Arc<Self> {
        let state = ActivityState {
            in_flight: 0,
            head_started: true,
            since: clock.now(),
            is_new: true,
            http2: false,
            tunnel: false,
            bodiless: true,
            blocked: None,
            unread_data: SmallVec::new(),
            next_unread_id: 0,
        };
        Arc::new(Self { state: Mutex::new(state), closing: AtomicBool::new(false), clock })
    }

    /// Records a complete request head and returns the in-flight guard.
    pub(crate) fn begin_request(self: &Arc<Self>, http2: bool, bodiless: bool) -> InFlightGuard {
        let mut state = self.state.lock();
        state.in_flight += 1;
        state.head_started = false;
        state.is_new = false;
        state.http2 = http2;
        state.bodiless = bodiless;
        InFlightGuard(Arc::clone(self))
    }

    /// Records that bytes arrived.
    pub(crate) fn record_read(&self) {
        let mut state = self.state.lock();
        if state.in_flight == 0 && !state.head_started && !state.http2 {
            state.head_started = true;
            state.since = self.clock.now();
        } else if state.tunnel {
            self.touch(&mut state);
        }
    }

    /// Records that bytes were written. With no request in flight this is the end of a response. On HTTP/2 the
    /// client can cause writes without a request, by pings.
    pub(crate) fn record_write(&self) {
        let mut state = self.state.lock();
        state.blocked = None;
        if !state.http2 || state.tunnel {
            self.touch(&mut state);
        }
    }

    /// Records a blocked write: the client does not read.
    pub(crate) fn record_write_blocked(&self) {
        let mut state = self.state.lock();
        if state.blocked.is_none() {
            state.blocked = Some(self.clock.now());
        }
    }

    /// Records progress of an HTTP/2 response body.
    pub(crate) fn record_response_progress(&self) {
        self.touch(&mut self.state.lock());
    }

    /// Marks the connection as carrying an upgraded HTTP/2 stream. From now on its bytes cannot be attributed.
    pub(crate) fn mark_tunnel(&self) {
        self.state.lock().tunnel = true;
    }

    /// Tracks response data that was taken while more remains. Dropping the guard records that hyper asked for
    /// more.
    pub(crate) fn track_unread(self: &Arc<Self>) -> UnreadDataGuard {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let id = state.next_unread_id;
        state.next_unread_id += 1;
        state.unread_data.push((id, now));
        UnreadDataGuard { activity: Arc::clone(self), id }
    }

    /// Records progress of tracked response data.
    pub(crate) fn record_unread_progress(&self, id: u64) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some((_, since)) = state.unread_data.iter_mut().find(|(known, _)| *known == id) {
            *since = now;
        }
    }

    /// Returns the time since which the client has not continued reading, if it has stopped.
    pub(crate) fn unread_since(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        state.unread_data.iter().map(|(_, since)| *since).chain(state.blocked).min()
    }

    /// From now on, responses announce that the connection closes.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn touch(&self, state: &mut ActivityState) {
        if state.in_flight == 0 && !state.head_started {
            state.since = self.clock.now();
        }
    }

    /// Returns the current read phase. `None` while requests are in flight or responses remain unread.
    pub(crate) fn read_phase(&self) -> Option<ReadPhase> {
        let state = self.state.lock();
        match (state.in_flight, state.head_started) {
            // The last response has not been written yet. HTTP/2 responses report that themselves: the blocked bytes
            // may be ping replies, which must not extend a timeout.
            _ if state.blocked.is_some() && !state.http2 && !state.is_new => None,
            (0, true) => Some(ReadPhase::Head(state.since)),
            (0, false) => Some(ReadPhase::Idle { since: state.since, settled: state.bodiless && !state.http2 }),
            _ => None,
        }
    }
}

impl InFlightGuard {
    pub(crate) const fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

/// Guard for response data that the client has yet to read.
pub(crate) struct UnreadDataGuard {
    activity: Arc<Activity>,
    id: u64,
}

impl UnreadDataGuard {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for UnreadDataGuard {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        if let Some(position) = state.unread_data.iter().position(|(id, _)| *id == self.id) {
            state.unread_data.swap_remove(position);
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_flight -= 1;
        if state.in_flight == 0 {
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
    fn header_timeout_of_a_new_connection_starts_at_accept() {
        let (clock, activity) = connection();
        let start = clock.now();
        clock.advance(Duration::from_secs(9));
        activity.record_read(); // a byte now and then changes nothing
        activity.record_write(); // nor does the greeting of HTTP/2
        assert_eq!(activity.read_phase(), Some(ReadPhase::Head(start)));
    }

    #[test]
    fn connection_is_idle_between_requests_until_a_byte_arrives() {
        let (clock, activity) = connection();
        let request = activity.begin_request(false, true);
        activity.record_read(); // of the body
        assert_eq!(activity.read_phase(), None);
        clock.advance(Duration::from_secs(100));
        drop(request);
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: clock.now(), settled: true }));
        clock.advance(Duration::from_secs(1));
        activity.record_write(); // the end of the response
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: clock.now(), settled: true }));
        clock.advance(Duration::from_secs(59));
        activity.record_read();
        let start = clock.now();
        clock.advance(Duration::from_secs(5));
        activity.record_read();
        activity.record_write();
        assert_eq!(activity.read_phase(), Some(ReadPhase::Head(start)));
    }

    #[test]
    fn http2_frames_do_not_start_a_request_head() {
        let (clock, activity) = connection();
        let (one, two) = (activity.begin_request(true, true), activity.begin_request(true, true));
        drop(one);
        assert_eq!(activity.read_phase(), None);
        drop(two);
        let idle = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.record_read();
        activity.record_write(); // the reply to a ping
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: idle, settled: false }));
        activity.record_response_progress();
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: clock.now(), settled: false }));
        clock.advance(Duration::from_secs(1));
        activity.mark_tunnel();
        activity.record_read();
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: clock.now(), settled: false }));
    }
    #[test]
    fn unread_ping_replies_do_not_extend_the_idle_timeout() {
        let clock = ManualClock::new();
        let activity = Activity::new(clock.clone().into());
        let start = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.record_write_blocked();
        assert_eq!(activity.read_phase(), Some(ReadPhase::Head(start)));
        drop(activity.begin_request(true, true));
        let idle = clock.now();
        clock.advance(Duration::from_secs(1));
        activity.record_write();
        activity.record_write_blocked();
        assert_eq!(activity.read_phase(), Some(ReadPhase::Idle { since: idle, settled: false }));
        // On HTTP/1 the blocked bytes are a response.
        drop(activity.begin_request(false, true));
        assert_eq!(activity.read_phase(), None);
    }
}
