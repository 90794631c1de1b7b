//! Warm-up: a paced rate that starts cold and rises to its full rate with use.
//!
//! Known as `SmoothWarmingUp` in Guava and as the warm-up behaviour in Sentinel. After idling, caches are cold
//! and pools empty, so the gap between admissions starts at `cold_factor` times the stable gap (three by
//! default) and shrinks to it linearly while the limiter is used; `warm_up` is the time this takes under full
//! use. Idling cools the limiter down again in the same time.
//!
//! **Guarantee.** The gap after an admission of cost n is at least `n / rate`, and longer while cold: in any
//! span T at most one admission more than `rate × T`. As in Guava, a cost of any size is admitted if the gap
//! has passed, and the next caller waits for it; so no cost is too large.
//!
//! **State.** Word 0: earliest time of the next admission, in nanoseconds. Word 1: warmth, in [`SCALE`]ths of
//! a permit; 0 is cold. The gap falls linearly from cold to stable over the upper part of the stored permits,
//! so the time for some permits is the area under that line.

use std::time::Duration;

use super::description::{
    Describe, Description, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind, ParameterValue,
    Share, missing,
};
use super::store_form::{StoreForm, StoreFormError};
use super::token_bucket::TokenBucket;
use super::{AdmitMode, Algorithm, Check, Leftover, LimitCharge, Status};
use crate::quota::{LimitError, Rate, window_nanos};
use crate::time::{Timestamp, saturating_nanos};

/// Fractions of a stored permit.
pub const SCALE: u64 = 1 << 20;

/// Default ratio of the cold gap to the stable gap.
pub const DEFAULT_COLD_FACTOR: u32 = 3;

/// Paced rate with a cold start. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    rate: Rate,
    warm_up: u64,
    cold_factor: u32,
    /// Gap between permits once warm, rounded up.
    stable: u64,
    /// Gap when completely cold.
    cold: u64,
    /// Warmth, in scaled permits, at which the stable gap is reached.
    slope_end: u64,
    /// Maximum warmth.
    max_warmth: u64,
}

impl WarmUp {
    /// `rate` once warm, reached after `warm_up` of full use from a gap `cold_factor` times as long.
    pub fn new(rate: Rate, warm_up: Duration, cold_factor: u32) -> Result<Self, LimitError> {
        if warm_up.is_zero() {
            return Err(LimitError::zero("warm_up"));
        }
        let warm_up = window_nanos(warm_up)?;
        if !(2..=100).contains(&cold_factor) {
            let reason = format!("cold_factor {cold_factor} is out of range: use 2 to 100 (3 is usual)");
            return Err(LimitError::parameter("cold_factor", reason));
        }
        let stable = saturating_nanos(rate.period()).div_ceil(rate.count());
        if stable < 1_000 {
            return Err(LimitError::RateTooHigh { rate });
        }
        let cold = stable.saturating_mul(u64::from(cold_factor));
        // The area under the slope is the warm-up time: permits × (cold + stable) / 2.
        let scaled = 2 * u128::from(warm_up) * u128::from(SCALE);
        let slope_ends = u64::try_from(scaled / (u128::from(stable) + u128::from(cold))).unwrap_or(u64::MAX);
        // Guava keeps warm_up / (2 × stable) further permits at the stable gap before cooling has an effect.
        let plateau = u64::try_from(scaled / 4 / u128::from(stable)).unwrap_or(u64::MAX);
        let max_warmth = slope_ends.saturating_add(plateau);
        // Allows the area under the whole slope to be computed without rounding: see `area`.
        let exact = (2 * scaled).checked_mul(u128::from(slope_ends)).is_some();
        if slope_ends < SCALE || max_warmth > 1 << 60 || !exact {
            let reason = format!(
                "warm_up is out of range for {rate}: it must span at least a few requests and at most a few years"
            );
            return Err(LimitError::parameter("over", reason));
        }
        Ok(Self { rate, warm_up, cold_factor, stable, cold, slope_end: slope_ends, max_warmth })
    }

    /// Rate once warm.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Time to warm up under full use.
    pub const fn warm_up(&self) -> Duration {
        Duration::from_nanos(self.warm_up)
    }

    /// Ratio of the cold gap to the stable gap.
    pub const fn cold_factor(&self) -> u32 {
        self.cold_factor
    }

    /// Warmth lost by idling: all of it in the whole warm-up time. Rounded up, so that idling in two parts
    /// never leaves it warmer than idling in one.
    fn cooled(&self, idle: u64) -> u64 {
        let cooled = (u128::from(idle) * u128::from(self.max_warmth)).div_ceil(u128::from(self.warm_up));
        u64::try_from(cooled).unwrap_or(u64::MAX)
    }

    /// Warmth at `now`.
    fn warmth(&self, state: &[u64], now: u64) -> u64 {
        state[1].saturating_sub(self.cooled(now.saturating_sub(state[0])))
    }

    /// Nanoseconds per permit at this warmth, times the slope's length.
    fn gap_numerator(&self, warmth: u64) -> u128 {
        let fall = u128::from(self.cold - self.stable) * u128::from(warmth.min(self.slope_end));
        u128::from(self.cold) * u128::from(self.slope_end) - fall
    }

    /// Time for `cost` permits starting at this warmth: the area under the gap's line, rounded up once at the
    /// end, so that a part never takes longer than the whole minus the other part.
    fn area(&self, warmth: u64, cost: u64) -> u64 {
        let scale = u128::from(SCALE);
        let permits = u128::from(cost) * scale;
        let on_slope = u128::from(self.slope_end.saturating_sub(warmth)).min(permits);
        let end = warmth.saturating_add(u64::try_from(on_slope).unwrap_or(u64::MAX));
        // Mean of the two ends of the line, times the permits between them.
        let whole = 2 * u128::from(self.slope_end) * scale;
        let sloped = (self.gap_numerator(warmth) + self.gap_numerator(end)) * on_slope;
        let flat = (permits - on_slope).saturating_mul(u128::from(self.stable));
        let parts = sloped % whole + flat % scale * (whole / scale);
        let nanos = sloped / whole + flat / scale + parts.div_ceil(whole);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Warmth after `cost` permits.
    fn warmed(&self, warmth: u64, cost: u64) -> u64 {
        warmth.saturating_add(cost.saturating_mul(SCALE)).min(self.max_warmth)
    }
}

impl Describe for WarmUp {
    const DESCRIPTION: &'static Description = &Description {
        name: "warm_up",
        title: "a warm-up limit",
        doc: "Rate that starts low after an idle period and reaches its full value when warm.",
        code: 9,
        unit: LimitUnit::Requests,
        pacing: Pacing::Paced,
        refundable: false,
        reservable: false,
        parameters: &[
            Parameter {
                name: "warm_up",
                doc: "Rate when warm.",
                kind: ParameterKind::Rate,
                default: None,
                example: "100/s",
                notation: " {}",
            },
            Parameter {
                name: "over",
                doc: "Duration of the warm-up.",
                kind: ParameterKind::Duration,
                default: None,
                example: "10s",
                notation: " after {}",
            },
            Parameter {
                name: "cold_factor",
                doc: "Factor by which the rate is lower at the start.",
                kind: ParameterKind::Count(2, 100),
                default: Some("3"),
                example: "3",
                notation: ", cold factor {}",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let over = arguments.duration(1).ok_or_else(|| missing("over"))?;
        Self::new(arguments.rate()?, over, arguments.count32(2).unwrap_or(DEFAULT_COLD_FACTOR))
    }

    fn arguments(&self) -> LimitArguments {
        let factor = ParameterValue::Count(self.cold_factor.into());
        LimitArguments::of([ParameterValue::Rate(self.rate), ParameterValue::Duration(self.warm_up()), factor])
    }

    /// A cost of any size is admitted.
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    /// Either a request is admitted, or none.
    fn status_limit(&self) -> u64 {
        1
    }

    fn window(&self) -> Option<Duration> {
        Some(self.rate.period())
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        let rate = nodes.rate(self.rate)?;
        match Self::new(rate, self.warm_up(), self.cold_factor) {
            Ok(share) => Ok(Share::Limit(share)),
            // A share that admits less than one request in its warm-up time is always cold.
            Err(_) => {
                let cold = NodeShare::new(self.cold_factor).rate(rate)?;
                TokenBucket::new(cold, 1).map(Share::TokenBucket)
            }
        }
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        const MAX_NANOS: u64 = 1 << 50;
        if self.warm_up > MAX_NANOS || self.cold > MAX_NANOS {
            return Err(StoreFormError("warm-up time"));
        }
        if self.max_warmth > MAX_NANOS {
            return Err(StoreFormError("rate times its warm-up time"));
        }
        let numbers = [self.stable, self.cold - self.stable, self.slope_end, self.max_warmth, self.warm_up];
        Ok(StoreForm::new("wu".to_owned(), numbers.map(|number| number as f64)))
    }
}

impl Algorithm for WarmUp {
    fn words(&self) -> usize {
        2
    }

    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        match state[0].checked_sub(now.as_nanos()) {
            Some(wait) if wait > 0 && cost > 0 => Check::NotBefore(wait),
            _ => Check::Now,
        }
    }

    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        if cost > 0 {
            let now = now.as_nanos();
            let warmth = self.warmth(state, now);
            state[0] = state[0].max(now).saturating_add(self.area(warmth, cost));
            state[1] = self.warmed(warmth, cost);
        }
        state[0]
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
        // In both directions the limiter must not end up warmer than if `actual` had been charged at once: it
        // would then have been free earlier and cooling since. One nanosecond allows for rounding.
        let [free, warm] = [state[0], state[1]];
        if let Some(extra) = actual.checked_sub(taken.cost).filter(|extra| *extra > 0) {
            let free_then = free.saturating_add(self.area(warm, extra));
            self.commit(state, now, extra, false);
            let delay = state[0].saturating_sub(free_then).saturating_add(1);
            state[1] = self.warmed(warm, extra).saturating_sub(self.cooled(delay));
        } else if actual < taken.cost && free == taken.mark && free < u64::MAX {
            // Refund at the stable gap, the shortest there is: never more than was charged.
            let unused = (taken.cost - actual).saturating_mul(self.stable);
            let coldest = warm.saturating_sub(taken.cost.saturating_mul(SCALE));
            let charged = self.area(coldest, taken.cost) - self.area(coldest, actual);
            let delay = charged.saturating_sub(unused).saturating_add(1);
            state[0] = free.saturating_sub(unused);
            state[1] = self.warmed(coldest, actual).saturating_sub(self.cooled(delay));
        }
    }

    /// Does nothing: the gap to the next admission is the guarantee, and it has begun.
    fn refund(&self, _state: &mut [u64], _now: Timestamp, _amount: u64) {}

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let wait = state[0].saturating_sub(now.as_nanos());
        Status { limit: 1, remaining: u64::from(wait == 0), reset: wait }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        let cooling = u128::from(state[1]) * u128::from(self.warm_up);
        let cooling = cooling.div_ceil(u128::from(self.max_warmth));
        let cooling = u64::try_from(cooling).unwrap_or(u64::MAX);
        Timestamp::from_nanos(state[0].saturating_add(cooling))
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        // The state that was free earlier has been cooling since.
        let free = into[0].max(from[0]);
        into[1] = self.warmth(into, free).min(self.warmth(from, free));
        into[0] = free;
    }

    fn leftover(&self, state: &[u64], now: Timestamp) -> Leftover {
        Leftover { remaining: None, ..Leftover::of(self, state, now) }
    }

    /// Starts cold, after the wait of the replaced limit.
    fn start_with(&self, state: &mut [u64], Leftover { wait, .. }: Leftover, now: Timestamp) {
        self.commit(state, now, u64::from(wait > 0), false);
        state[0] = state[0].max((now + Duration::from_nanos(wait)).as_nanos());
    }
}
