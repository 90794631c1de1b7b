//! Waiting until bytes may pass.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Meters, grant};
use crate::decision::{Decision, Verdict};
use crate::limiter::{Inner, NO_STATE, Reason};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{Asked, InLine, Turn};

/// Bytes that are waited for. Resolves to how many may pass now; until then nothing is taken, and dropping
/// it leaves the line.
#[must_use = "futures do nothing unless polled"]
pub struct TakingBytes(State);

enum State {
    InLine(InLine<MeterTurn>),
    Granted(u64),
    Done,
}

impl TakingBytes {
    pub(super) fn new(meters: &Meters, most: u64) -> Self {
        if meters.is_empty() || most == 0 {
            return Self(State::Granted(most));
        }
        Self(State::InLine(InLine::new(MeterTurn { meters: meters.clone(), most, at: 0 }, None)))
    }
}

impl Future for TakingBytes {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let granted = match &mut self.0 {
            State::Granted(bytes) => *bytes,
            // Polled again after it was ready: there is nothing more to come.
            State::Done => return Poll::Pending,
            State::InLine(line) => match poll_lines(line, context) {
                Poll::Ready(bytes) => bytes,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = State::Done;
        Poll::Ready(granted)
    }
}

/// Stands in the line of the meter that makes wait longest. That may become another one meanwhile.
fn poll_lines(line: &mut InLine<MeterTurn>, context: &mut Context<'_>) -> Poll<u64> {
    for _ in 0..=line.turn_mut().meters.0.len() {
        match Pin::new(&mut *line).poll(context) {
            Poll::Ready(Ok(bytes)) => return Poll::Ready(bytes),
            Poll::Ready(Err(at)) => {
                let MeterTurn { meters, most, .. } = line.turn_mut();
                let turn = MeterTurn { meters: std::mem::take(meters), most: *most, at };
                *line = InLine::new(turn, None);
            }
            Poll::Pending => return Poll::Pending,
        }
    }
    // It changes as fast as one can look.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Somebody in the line of one of its meters.
struct MeterTurn {
    meters: Meters,
    most: u64,
    /// Which of them.
    at: usize,
}

impl Turn for MeterTurn {
    type Pass = u64;
    /// The meter to wait for instead.
    type Refusal = usize;

    fn limiter(&self) -> &Arc<Inner> {
        &self.meters.0[self.at].pacer.limiter
    }

    fn key(&self) -> KeyHash {
        self.meters.0[self.at].key
    }

    fn cost(&self) -> u64 {
        self.meters.worth_taking(self.most)
    }

    /// Bodies have nowhere else to wait, and requests are bounded by other means.
    fn even_if_full(&self) -> bool {
        true
    }

    fn ask(&mut self, now: Timestamp, _waker: &Waker) -> Asked<u64> {
        let bytes = self.cost();
        let granted = grant(&self.meters.0, now, bytes, bytes);
        if granted > 0 {
            return Asked::Admitted(granted);
        }
        let (slowest, wait) = self.meters.slowest(now, bytes);
        let decision = Decision { verdict: Verdict::Denied { retry_after: Some(wait) }, ..NO_STATE };
        if slowest == self.at { Asked::NotYet(decision) } else { Asked::Refused(decision) }
    }

    fn refuse(&mut self, _decision: Decision, _reason: Reason) -> usize {
        let now = self.limiter().clock.now();
        self.meters.slowest(now, self.cost()).0
    }
}

impl std::fmt::Debug for TakingBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakingBytes").finish_non_exhaustive()
    }
}
