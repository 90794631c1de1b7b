//! Each algorithm's numbers as the scripts want them, and what it adds to the shape.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::gcra::Gcra;
use sluicegate_engine::algorithm::warm_up::SCALE;
use sluicegate_engine::algorithm::{Alignment, WarmUp};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;

use super::{PrepareError, PreparedLimits};

/// Scripts are exact up to twice this.
pub(super) const HIGHEST: u64 = 1 << 52;

/// Ticks of a bucket, sixteenths of a nanosecond, in a microsecond.
const TICKS_PER_MICRO: u64 = 16_000;

/// Numbers of the algorithms in the scripts.
mod kind {
    pub(super) const BUCKET: u8 = 1;
    pub(super) const FIXED_WINDOW: u8 = 2;
    pub(super) const SLIDING_WINDOW: u8 = 3;
    pub(super) const INTERPOLATED_WINDOW: u8 = 4;
    pub(super) const SLIDING_LOG: u8 = 5;
    pub(super) const WARM_UP: u8 = 6;
    pub(super) const CONCURRENCY: u8 = 7;
}

/// Descriptions and shapes of limits, one after the other.
#[derive(Default)]
pub(super) struct Describing {
    pub(super) permit_life: u64,
    pub(super) shape: String,
    pub(super) bytes: Vec<u8>,
    pub(super) seconds: Vec<String>,
}

impl Describing {
    pub(super) fn describe(&mut self, index: usize, limit: &Limit) -> Result<(), PrepareError> {
        let small = |number: u64, what| if number <= HIGHEST { Ok(number) } else { Err(too_large(limit, what)) };
        match limit {
            Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => {
                self.shape.push_str("tb");
                self.bucket(limit, bucket.gcra(), false)?;
            }
            Limit::LeakyBucket(line) => {
                self.shape.push_str("lb");
                self.bucket(limit, &Gcra::new(line.rate(), line.queue(), "queue")?, true)?;
            }
            Limit::FixedWindow(window) => {
                let most = small(window.limit(), "limit")?;
                let length = micros_covering(window.window());
                let (name, phase) = match window.alignment() {
                    Alignment::Epoch => {
                        ("fw", (u128::from(EPOCH_UNIX_SECONDS) * 1_000_000 % u128::from(length)) as f64)
                    }
                    Alignment::FirstUse => ("fu", -1.0),
                };
                self.name(format_args!("{name}{length}"));
                self.numbers(kind::FIXED_WINDOW, &[most as f64, length as f64, phase]);
            }
            Limit::SlidingWindow(window) => {
                let most = small(window.limit(), "limit")?;
                let length = micros_covering(window.window());
                let cell = length.div_ceil(u64::from(window.cells()));
                let cells = length.div_ceil(cell);
                let (width, highest, mark) =
                    if most < u64::from(u32::MAX) { (4, u64::from(u32::MAX), "") } else { (7, 2 * HIGHEST - 1, "w") };
                self.name(format_args!("sw{cells}x{cell}{mark}"));
                let numbers = [most as f64, cell as f64, cells as f64, highest as f64, f64::from(width)];
                self.numbers(kind::SLIDING_WINDOW, &numbers);
            }
            Limit::InterpolatedWindow(window) => {
                let most = small(window.limit(), "limit")?;
                let length = micros_covering(window.window());
                let scale = if length <= HIGHEST / 1_000 { 1_000.0 } else { 1.0 };
                self.name(format_args!("iw{length}"));
                self.numbers(kind::INTERPOLATED_WINDOW, &[most as f64, length as f64, scale]);
            }
            Limit::SlidingLog(log) => {
                self.name(format_args!("sl{}", log.limit()));
                let length = micros_covering(log.window());
                self.numbers(kind::SLIDING_LOG, &[log.limit() as f64, length as f64, self.seconds.len() as f64]);
                self.seconds.push(format!("log{index}"));
            }
            Limit::WarmUp(warm_up) => {
                self.shape.push_str("wu");
                self.warm_up(limit, warm_up)?;
            }
            Limit::Concurrency(permits) => {
                let most = small(permits.limit(), "limit")?;
                let place = self.seconds.iter().position(|suffix| suffix == PreparedLimits::permits_suffix());
                let first = place.is_none();
                let place = place.unwrap_or(self.seconds.len());
                if first {
                    self.seconds.push(PreparedLimits::permits_suffix().to_owned());
                }
                self.shape.push_str("cc");
                let numbers = [most as f64, self.permit_life as f64, place as f64, f64::from(u8::from(first))];
                self.numbers(kind::CONCURRENCY, &numbers);
            }
            other => return Err(PrepareError::Unknown { limit: *other }),
        }
        Ok(())
    }

    fn name(&mut self, name: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.shape.write_fmt(name);
    }

    fn numbers(&mut self, kind: u8, numbers: &[f64]) {
        self.bytes.extend([kind, numbers.len() as u8]);
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn bucket(&mut self, limit: &Limit, bucket: &Gcra, line: bool) -> Result<(), PrepareError> {
        let (interval, burst) = (bucket.interval(), bucket.burst());
        let fraction = interval % TICKS_PER_MICRO;
        if burst > HIGHEST || burst.checked_mul(fraction).is_none_or(|ticks| ticks > HIGHEST) {
            return Err(too_large(limit, "burst"));
        }
        let numbers = [
            (interval / TICKS_PER_MICRO) as f64,
            fraction as f64,
            burst as f64,
            interval as f64,
            (bucket.tolerance() / TICKS_PER_MICRO) as f64,
            (bucket.tolerance() % TICKS_PER_MICRO) as f64,
            f64::from(u8::from(line)),
        ];
        self.numbers(kind::BUCKET, &numbers);
        Ok(())
    }

    /// The engine's own constants, from what a warm-up tells of itself.
    fn warm_up(&mut self, limit: &Limit, warm_up: &WarmUp) -> Result<(), PrepareError> {
        const LONGEST: u64 = 1 << 50;
        let rate = warm_up.rate();
        let time = u64::try_from(warm_up.warm_up().as_nanos()).unwrap_or(u64::MAX);
        let stable = u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX).div_ceil(rate.count());
        let cold = stable.saturating_mul(u64::from(warm_up.cold_factor()));
        if time > LONGEST || cold > LONGEST {
            return Err(too_large(limit, "time to warm up"));
        }
        let scaled = 2 * u128::from(time) * u128::from(SCALE);
        let slope_ends = scaled / (u128::from(stable) + u128::from(cold));
        let warmest = slope_ends + scaled / 4 / u128::from(stable);
        if warmest > u128::from(LONGEST) {
            return Err(too_large(limit, "rate times its time to warm up"));
        }
        let numbers = [stable as f64, (cold - stable) as f64, slope_ends as f64, warmest as f64, time as f64];
        self.numbers(kind::WARM_UP, &numbers);
        Ok(())
    }
}

const fn too_large(limit: &Limit, what: &'static str) -> PrepareError {
    PrepareError::TooLarge { limit: *limit, what }
}

/// A sole token bucket whose debt fits into one number of the scripts.
pub(super) fn short_form(limits: &[Limit]) -> Option<Bytes> {
    let [Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket)] = limits else { return None };
    let gcra = bucket.gcra();
    if gcra.tolerance() > HIGHEST {
        return None;
    }
    let numbers = [gcra.interval() as f64, gcra.burst() as f64, gcra.tolerance() as f64];
    let mut bytes = vec![1];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    Some(bytes.into())
}

/// Whole microseconds that cover a span.
pub(super) fn micros_covering(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
