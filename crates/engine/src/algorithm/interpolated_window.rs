//! Interpolated window: approximates a sliding window with two counters; cheap but not strict.
//!
//! The usage of the previous window is assumed to be evenly spread and is weighted by the part of that window
//! that lies within one window's length of now.
//!
//! **Guarantee.** None for arbitrary spans: if all requests of the previous window came at its end, almost
//! twice the limit can pass within one window. On evenly spread traffic the error is small. For this reason it
//! has a name of its own; [`SlidingWindow`](super::SlidingWindow) is strict. The promised wait is exact, as
//! with every algorithm.
//!
//! **State.** Word 0: number of the current window plus one. Word 1: count of the previous window. Word 2:
//! count of the current window.

use std::time::Duration;

use super::description::{
    Describe, Description, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind, ParameterValue,
    Share,
};
use super::store_form::{MAX_NUMBER, StoreForm, StoreFormError, ceil_micros, exact};
use super::{AdmitMode, Algorithm, Check, LimitCharge, Status, nanos};
use crate::quota::{LimitError, Rate, window_nanos};
use crate::time::Timestamp;

/// Interpolated window limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpolatedWindow {
    limit: u64,
    window: u64,
}

/// Counters of a window and its predecessor.
#[derive(Clone, Copy)]
struct WindowCounts {
    window: u64,
    previous: u64,
    current: u64,
}

impl InterpolatedWindow {
    /// About `limit` per `window`.
    pub fn new(limit: u64, window: Duration) -> Result<Self, LimitError> {
        if limit == 0 {
            return Err(LimitError::zero("limit"));
        }
        Ok(Self { limit, window: window_nanos(window)? })
    }

    /// Maximum per window on evenly spread traffic.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    #[inline]
    fn counts_at(&self, state: &[u64], now: u64) -> WindowCounts {
        let window = (now / self.window).max(state[0].saturating_sub(1));
        match (window + 1).checked_sub(state[0]) {
            Some(0) => WindowCounts { window, previous: state[1], current: state[2] },
            Some(1) => WindowCounts { window, previous: state[2], current: 0 },
            _ => WindowCounts { window, previous: 0, current: 0 },
        }
    }

    /// Part of the previous window that still counts, in nanoseconds.
    #[inline]
    const fn overlap(&self, window: u64, now: u64) -> u64 {
        let into = now.saturating_sub(window.saturating_mul(self.window));
        self.window - if into < self.window { into } else { self.window }
    }

    /// Maximum overlap at which `count` of the previous window fits into `room`.
    const fn max_overlap(&self, count: u64, room: u64) -> u64 {
        if count <= room {
            return self.window;
        }
        (room as u128 * self.window as u128 / count as u128) as u64
    }
}

impl Describe for InterpolatedWindow {
    const DESCRIPTION: &'static Description = &Description {
        name: "interpolated_window",
        title: "an interpolated window",
        doc: "Approximate limit that needs little memory. A client that exploits the approximation can reach almost \
              twice the count.",
        code: 5,
        unit: LimitUnit::Requests,
        pacing: Pacing::None,
        refundable: true,
        reservable: false,
        parameters: &[Parameter {
            name: "interpolated_window",
            doc: "Approximate count per window.",
            kind: ParameterKind::Window,
            default: None,
            example: "100/1m",
            notation: " {}",
        }],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        Self::new(rate.count(), rate.period())
    }

    fn arguments(&self) -> LimitArguments {
        LimitArguments::new([Rate::new(self.limit, self.window()).ok().map(ParameterValue::Rate)])
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window())
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        let (limit, window) = nodes.window(self.limit, self.window());
        Self::new(limit, window).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        let max = exact(self.limit, "limit")?;
        let length = ceil_micros(self.window());
        let scale = if length <= MAX_NUMBER / 1_000 { 1_000.0 } else { 1.0 };
        Ok(StoreForm::new(format!("iw{length}"), [max as f64, length as f64, scale]))
    }

    fn carry_over(&self, state: &mut [u64], old: &Self, old_state: &[u64]) -> bool {
        let same = self.window == old.window;
        if same {
            state.copy_from_slice(old_state);
        }
        same
    }

    /// The estimate never exceeds the count of two windows.
    fn counting_time(&self) -> Option<Duration> {
        Some(self.window() * 2)
    }
}

impl Algorithm for InterpolatedWindow {
    fn words(&self) -> usize {
        3
    }

    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        if cost > self.limit {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        let now = nanos(now);
        let counts = self.counts_at(state, now);
        let start = counts.window.saturating_mul(self.window);
        let wait_until = |after: u64| Check::NotBefore(start.saturating_add(after) - now);
        if let Some(room) = (self.limit - cost).checked_sub(counts.current) {
            let allowed = self.max_overlap(counts.previous, room);
            if self.overlap(counts.window, now) <= allowed {
                return Check::Now;
            }
            return wait_until(self.window - allowed);
        }
        // The current window alone exceeds the room: it has to become the previous one first.
        let allowed = self.max_overlap(counts.current, self.limit - cost);
        wait_until(self.window + (self.window - allowed))
    }

    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        let counts = self.counts_at(state, nanos(now));
        if cost > 0 {
            state[0] = counts.window + 1;
            state[1] = counts.previous;
            state[2] = counts.current.saturating_add(cost);
        }
        counts.window
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
        let slot = match state[0].checked_sub(taken.mark) {
            Some(1) => 2,
            Some(2) => 1,
            None | Some(0) if actual > taken.cost => {
                // The window was never stored, because the first charge was zero.
                self.commit(state, now, actual - taken.cost, false);
                return;
            }
            _ => return,
        };
        state[slot] = state[slot].saturating_sub(taken.cost).saturating_add(actual);
    }

    /// Refunds the current window first: the previous one counts only in part.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        let WindowCounts { window, previous, current } = self.counts_at(state, nanos(now));
        if previous > 0 || current > 0 {
            let left = amount.saturating_sub(current);
            state.copy_from_slice(&[window + 1, previous.saturating_sub(left), current.saturating_sub(amount)]);
        }
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = nanos(now);
        let counts = self.counts_at(state, now);
        let overlap = u128::from(self.overlap(counts.window, now));
        let previous = (u128::from(counts.previous) * overlap).div_ceil(u128::from(self.window)) as u64;
        let used = previous.saturating_add(counts.current);
        let reset = if used == 0 { 0 } else { self.full_at(state).as_nanos().saturating_sub(now) };
        Status { limit: self.limit, remaining: self.limit.saturating_sub(used), reset }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        let windows = match state {
            [0, ..] => 0,
            [window, _, 0] => *window,
            [window, ..] => window.saturating_add(1),
            _ => 0,
        };
        Timestamp::from_nanos(windows.saturating_mul(self.window))
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        let start = into[0].max(from[0]).saturating_sub(1).saturating_mul(self.window);
        let (a, b) = (self.counts_at(into, start), self.counts_at(from, start));
        into[0] = into[0].max(from[0]);
        into[1] = a.previous.max(b.previous);
        into[2] = a.current.max(b.current);
    }
}
