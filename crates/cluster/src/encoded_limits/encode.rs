//! Encoding of each algorithm's parameters, and its part of the shape.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::gcra::Gcra;
use sluicegate_engine::algorithm::warm_up::SCALE;
use sluicegate_engine::algorithm::{Alignment, WarmUp};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;

use super::{EncodeLimitsError, EncodedLimits};

/// Scripts are exact up to twice this.
pub(super) const MAX_NUMBER: u64 = 1 << 52;

/// Bucket ticks, sixteenths of a nanosecond, per microsecond.
const TICKS_PER_MICRO: u64 = 16_000;

/// Algorithm numbers in the scripts.
mod kind {
    pub(super) const BUCKET: u8 = 1;
    pub(super) const FIXED_WINDOW: u8 = 2;
    pub(super) const SLIDING_WINDOW: u8 = 3;
    pub(super) const INTERPOLATED_WINDOW: u8 = 4;
    pub(super) const SLIDING_LOG: u8 = 5;
    pub(super) const WARM_UP: u8 = 6;
    pub(super) const CONCURRENCY: u8 = 7;
}

/// Accumulates the encodings and shapes of limits.
#[derive(Default)]
pub(super) struct LimitEncoder {
    pub(super) permit_ttl: u64,
    pub(super) shape: String,
    pub(super) bytes: Vec<u8>,
    pub(super) secondary_suffixes: Vec<String>,
}

impl LimitEncoder {
    pub(super) fn encode(&mut self, index: usize, limit: &Limit) -> Result<(), EncodeLimitsError> {
        let small = |number: u64, field| if number <= MAX_NUMBER { Ok(number) } else { Err(too_large(limit, field)) };
        match limit {
            Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => {
                self.shape.push_str("tb");
                self.bucket(limit, bucket.gcra(), false)?;
            }
            Limit::LeakyBucket(leaky) => {
                self.shape.push_str("lb");
                self.bucket(limit, &Gcra::new(leaky.rate(), leaky.queue(), "queue")?, true)?;
            }
            Limit::FixedWindow(window) => {
                let max = small(window.limit(), "limit")?;
                let length = ceil_micros(window.window());
                let (name, phase) = match window.alignment() {
                    Alignment::Epoch => {
                        ("fw", (u128::from(EPOCH_UNIX_SECONDS) * 1_000_000 % u128::from(length)) as f64)
                    }
                    Alignment::FirstUse => ("fu", -1.0),
                };
                self.push_shape(format_args!("{name}{length}"));
                self.push_numbers(kind::FIXED_WINDOW, &[max as f64, length as f64, phase]);
            }
            Limit::SlidingWindow(window) => {
                let max = small(window.limit(), "limit")?;
                let length = ceil_micros(window.window());
                let cell = length.div_ceil(u64::from(window.cells()));
                let cells = length.div_ceil(cell);
                let (width, highest, mark) =
                    if max < u64::from(u32::MAX) { (4, u64::from(u32::MAX), "") } else { (7, 2 * MAX_NUMBER - 1, "w") };
                self.push_shape(format_args!("sw{cells}x{cell}{mark}"));
                let numbers = [max as f64, cell as f64, cells as f64, highest as f64, f64::from(width)];
                self.push_numbers(kind::SLIDING_WINDOW, &numbers);
            }
            Limit::InterpolatedWindow(window) => {
                let max = small(window.limit(), "limit")?;
                let length = ceil_micros(window.window());
                let scale = if length <= MAX_NUMBER / 1_000 { 1_000.0 } else { 1.0 };
                self.push_shape(format_args!("iw{length}"));
                self.push_numbers(kind::INTERPOLATED_WINDOW, &[max as f64, length as f64, scale]);
            }
            Limit::SlidingLog(log) => {
                self.push_shape(format_args!("sl{}", log.limit()));
                let length = ceil_micros(log.window());
                self.push_numbers(
                    kind::SLIDING_LOG,
                    &[log.limit() as f64, length as f64, self.secondary_suffixes.len() as f64],
                );
                self.secondary_suffixes.push(format!("log{index}"));
            }
            Limit::WarmUp(warm_up) => {
                self.shape.push_str("wu");
                self.warm_up(limit, warm_up)?;
            }
            Limit::Concurrency(permits) => {
                let max = small(permits.limit(), "limit")?;
                let index = self.secondary_suffixes.iter().position(|suffix| suffix == EncodedLimits::permits_suffix());
                let first = index.is_none();
                let index = index.unwrap_or(self.secondary_suffixes.len());
                if first {
                    self.secondary_suffixes.push(EncodedLimits::permits_suffix().to_owned());
                }
                self.shape.push_str("cc");
                let numbers = [max as f64, self.permit_ttl as f64, index as f64, f64::from(u8::from(first))];
                self.push_numbers(kind::CONCURRENCY, &numbers);
            }
            other => return Err(EncodeLimitsError::Unknown { limit: *other }),
        }
        Ok(())
    }

    fn push_shape(&mut self, name: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.shape.write_fmt(name);
    }

    fn push_numbers(&mut self, kind: u8, numbers: &[f64]) {
        self.bytes.extend([kind, numbers.len() as u8]);
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn bucket(&mut self, limit: &Limit, bucket: &Gcra, leaky: bool) -> Result<(), EncodeLimitsError> {
        let (interval, burst) = (bucket.interval(), bucket.burst());
        let fraction = interval % TICKS_PER_MICRO;
        if burst > MAX_NUMBER || burst.checked_mul(fraction).is_none_or(|ticks| ticks > MAX_NUMBER) {
            return Err(too_large(limit, "burst"));
        }
        let numbers = [
            (interval / TICKS_PER_MICRO) as f64,
            fraction as f64,
            burst as f64,
            interval as f64,
            (bucket.tolerance() / TICKS_PER_MICRO) as f64,
            (bucket.tolerance() % TICKS_PER_MICRO) as f64,
            f64::from(u8::from(leaky)),
        ];
        self.push_numbers(kind::BUCKET, &numbers);
        Ok(())
    }

    /// The engine's internal constants, derived from the public parameters of a warm-up limit.
    fn warm_up(&mut self, limit: &Limit, warm_up: &WarmUp) -> Result<(), EncodeLimitsError> {
        const MAX_NANOS: u64 = 1 << 50;
        let rate = warm_up.rate();
        let time = u64::try_from(warm_up.warm_up().as_nanos()).unwrap_or(u64::MAX);
        let stable = u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX).div_ceil(rate.count());
        let cold = stable.saturating_mul(u64::from(warm_up.cold_factor()));
        if time > MAX_NANOS || cold > MAX_NANOS {
            return Err(too_large(limit, "warm-up time"));
        }
        let scaled = 2 * u128::from(time) * u128::from(SCALE);
        let slope_end = scaled / (u128::from(stable) + u128::from(cold));
        let warmest = slope_end + scaled / 4 / u128::from(stable);
        if warmest > u128::from(MAX_NANOS) {
            return Err(too_large(limit, "rate times its warm-up time"));
        }
        let numbers = [stable as f64, (cold - stable) as f64, slope_end as f64, warmest as f64, time as f64];
        self.push_numbers(kind::WARM_UP, &numbers);
        Ok(())
    }
}

const fn too_large(limit: &Limit, field: &'static str) -> EncodeLimitsError {
    EncodeLimitsError::TooLarge { limit: *limit, field }
}

/// Short form of a single token bucket with a debt that fits into one Lua number.
pub(super) fn encode_short_bucket(limits: &[Limit]) -> Option<Bytes> {
    let [Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket)] = limits else { return None };
    let gcra = bucket.gcra();
    if gcra.tolerance() > MAX_NUMBER {
        return None;
    }
    let numbers = [gcra.interval() as f64, gcra.burst() as f64, gcra.tolerance() as f64];
    let mut bytes = vec![1];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    Some(bytes.into())
}

/// A duration in microseconds, rounded up.
pub(super) fn ceil_micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
