//! Moments in UTC, as logs write them.

use std::time::{Duration, SystemTime};

use super::number::padded;

const SECONDS_PER_DAY: u64 = 86_400;
/// The last second that has a year of four digits.
const LAST: u64 = 253_402_300_799;
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// A moment by the calendar. What lies before 1970 or after 9999 becomes the nearest moment that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u64,
}

impl From<SystemTime> for Civil {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = since.min(Duration::new(LAST, 999_999_999));
        let (days, of_day) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
        // Years are counted from March, so that the leap day is the last of its year, and in eras of 400 years, after
        // which the calendar repeats. 0000-03-01 lies 719,468 days before 1970.
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            millisecond: u64::from(since.subsec_millis()),
        }
    }
}

/// Such as `2000-10-10T13:55:36.042Z`.
pub(super) fn rfc3339(out: &mut Vec<u8>, time: SystemTime) {
    let it = Civil::from(time);
    padded::<4>(out, it.year);
    out.push(b'-');
    padded::<2>(out, it.month);
    out.push(b'-');
    padded::<2>(out, it.day);
    out.push(b'T');
    clock(out, &it);
    out.push(b'.');
    padded::<3>(out, it.millisecond);
    out.push(b'Z');
}

/// Such as `10/Oct/2000:13:55:36 +0000`.
pub(super) fn common(out: &mut Vec<u8>, time: SystemTime) {
    let it = Civil::from(time);
    padded::<2>(out, it.day);
    out.push(b'/');
    out.extend_from_slice(MONTHS[(it.month as usize - 1) % MONTHS.len()]);
    out.push(b'/');
    padded::<4>(out, it.year);
    out.push(b':');
    clock(out, &it);
    out.extend_from_slice(b" +0000");
}

fn clock(out: &mut Vec<u8>, it: &Civil) {
    padded::<2>(out, it.hour);
    out.push(b':');
    padded::<2>(out, it.minute);
    out.push(b':');
    padded::<2>(out, it.second);
}
