//! Fixed window: a counter that restarts with every window.
//!
//! **Guarantee.** At most `limit` per window. A span of one window's length that crosses a boundary can see
//! twice the limit: all of the first window at its end, all of the second at its start. This is inherent to
//! the algorithm; [`SlidingWindow`](super::SlidingWindow) has no such boundary effect.
//!
//! **Alignment.** [`Alignment::Epoch`] puts the boundaries on the calendar (a window of a day starts at
//! midnight UTC), the same for every key. [`Alignment::FirstUse`] starts a key's window at its first request;
//! the window stays even if that request is refunded.
//!
//! **State.** Word 0: end of the window in nanoseconds. Word 1: usage of the window. If the clock steps back,
//! the window stays the same.

use std::time::Duration;

use super::description::{
    Describe, Description, LeaseForm, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind,
    ParameterValue, Share,
};
use super::store_form::{StoreForm, StoreFormError, ceil_micros, exact};
use super::{AdmitMode, Algorithm, Check, LimitCharge, Status, nanos};
use crate::quota::{LimitError, Rate, window_nanos};
use crate::time::{EPOCH_UNIX_SECONDS, Timestamp};

/// Alignment of window boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Alignment {
    /// At whole multiples of the window since the Unix epoch, the same for every key.
    #[default]
    Epoch,
    /// At a key's first request after its last window ended.
    FirstUse,
}

/// Fixed window limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: u64,
    alignment: Alignment,
    /// Offset of the engine's epoch within its window.
    phase: u64,
}

impl FixedWindow {
    /// At most `limit` per `window`.
    pub fn new(limit: u64, window: Duration, alignment: Alignment) -> Result<Self, LimitError> {
        if limit == 0 {
            return Err(LimitError::zero("limit"));
        }
        let window = window_nanos(window)?;
        let epoch = u128::from(EPOCH_UNIX_SECONDS) * 1_000_000_000;
        // A remainder of `window` fits into the same type.
        let phase = (epoch % u128::from(window)) as u64;
        Ok(Self { limit, window, alignment, phase })
    }

    /// Maximum per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// Alignment of the window boundaries.
    pub const fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// End and usage of the window that contains `now`.
    #[inline]
    fn current(&self, state: &[u64], now: u64) -> (u64, u64) {
        if now < state[0] {
            return (state[0], state[1]);
        }
        let end = match self.alignment {
            Alignment::FirstUse => now.saturating_add(self.window),
            Alignment::Epoch => {
                let into = ((u128::from(now) + u128::from(self.phase)) % u128::from(self.window)) as u64;
                now.saturating_add(self.window - into)
            }
        };
        (end, 0)
    }
}

impl Describe for FixedWindow {
    const DESCRIPTION: &'static Description = &Description {
        name: "fixed_window",
        title: "a fixed window",
        doc: "Count per window. Around a window boundary, up to twice the count can pass within one window length.",
        code: 3,
        unit: LimitUnit::Requests,
        pacing: Pacing::None,
        refundable: true,
        reservable: false,
        parameters: &[
            Parameter {
                name: "fixed_window",
                doc: "Count per window.",
                kind: ParameterKind::Window,
                default: None,
                example: "100/1h",
                notation: " {}",
            },
            Parameter {
                name: "align",
                doc: "Start of a window.",
                kind: ParameterKind::Keyword(&[
                    ("epoch", "at full hours, days and so on (UTC)"),
                    ("first_use", "at the first request of the window"),
                ]),
                default: Some("epoch"),
                example: "first_use",
                notation: ", from {}",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        let alignment = if arguments.keyword(1) == 0 { Alignment::Epoch } else { Alignment::FirstUse };
        Self::new(rate.count(), rate.period(), alignment)
    }

    fn arguments(&self) -> LimitArguments {
        let alignment = usize::from(self.alignment == Alignment::FirstUse);
        LimitArguments::new([
            Rate::new(self.limit, self.window()).ok().map(ParameterValue::Rate),
            Some(ParameterValue::Keyword(alignment)),
        ])
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window())
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        let (limit, window) = nodes.window(self.limit, self.window());
        Self::new(limit, window, self.alignment).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        let max = exact(self.limit, "limit")?;
        let length = ceil_micros(self.window());
        let (name, phase) = match self.alignment {
            Alignment::Epoch => ("fw", (u128::from(EPOCH_UNIX_SECONDS) * 1_000_000 % u128::from(length)) as f64),
            Alignment::FirstUse => ("fu", -1.0),
        };
        Ok(StoreForm::new(format!("{name}{length}"), [max as f64, length as f64, phase]))
    }

    fn lease_form(&self) -> Option<LeaseForm> {
        let form = LeaseForm::Window { limit: self.limit, window: self.window(), cells: 0 };
        (self.alignment == Alignment::Epoch).then_some(form)
    }

    fn carry_over(&self, state: &mut [u64], old: &Self, old_state: &[u64]) -> bool {
        let same = self.window == old.window && self.alignment == old.alignment;
        if same {
            state.copy_from_slice(old_state);
        }
        same
    }

    fn implies(&self, other: &Self) -> bool {
        self.alignment == other.alignment && self.window == other.window && self.limit <= other.limit
    }

    fn max_admitted(&self, span: Duration) -> Option<u128> {
        // A span that begins within a window touches one more.
        (span.as_nanos().div_ceil(u128::from(self.window)) + 1).checked_mul(u128::from(self.limit))
    }

    fn counting_time(&self) -> Option<Duration> {
        Some(self.window())
    }
}

impl Algorithm for FixedWindow {
    fn words(&self) -> usize {
        2
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        if cost > self.limit {
            return Check::Never;
        }
        let now = nanos(now);
        let (end, used) = self.current(state, now);
        if cost == 0 || cost <= self.limit.saturating_sub(used) { Check::Now } else { Check::NotBefore(end - now) }
    }

    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        let (end, used) = self.current(state, nanos(now));
        if cost > 0 {
            state[0] = end;
            state[1] = used.saturating_add(cost);
        }
        end
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
        if state[0] == taken.mark {
            state[1] = state[1].saturating_sub(taken.cost).saturating_add(actual);
        } else if actual > taken.cost && nanos(now) < taken.mark {
            // The window is still running but was never stored, because the first charge was zero.
            self.commit(state, now, actual - taken.cost, false);
        }
    }

    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        if nanos(now) < state[0] {
            state[1] = state[1].saturating_sub(amount);
        }
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = nanos(now);
        let (end, used) = self.current(state, now);
        let reset = if used == 0 { 0 } else { end - now };
        Status { limit: self.limit, remaining: self.limit.saturating_sub(used), reset }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        Timestamp::from_nanos(state[0])
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        into[0] = into[0].max(from[0]);
        into[1] = into[1].max(from[1]);
    }

    fn restart(&self, state: &mut [u64], now: Timestamp) {
        if self.alignment == Alignment::FirstUse && state[0] > now.as_nanos() {
            state[0] = (now + self.window()).as_nanos();
        }
    }
}
