//! Timestamps in UTC.

use std::time::{Duration, SystemTime};

use super::format_number::padded;

const SECONDS_PER_DAY: u64 = 86_400;
/// The last second with a four-digit year.
const MAX_UNIX_SECONDS: u64 = 253_402_300_799;
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Calendar date and time. Times before 1970 or after 9999 are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CivilTime {
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

impl From<SystemTime> for CivilTime {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = since.min(Duration::new(MAX_UNIX_SECONDS, 999_999_999));
        let (days, of_day) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
        // Years start in March, so that the leap day is the last day of the year, and are grouped in eras of 400
        // years, after which the calendar repeats. 0000-03-01 is 719,468 days before 1970.
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

/// Writes a time such as `2000-10-10T13:55:36.042Z`.
pub(super) fn rfc3339(out: &mut Vec<u8>, time: SystemTime) {
    let civil = CivilTime::from(time);
    padded::<4>(out, civil.year);
    out.push(b'-');
    padded::<2>(out, civil.month);
    out.push(b'-');
    padded::<2>(out, civil.day);
    out.push(b'T');
    time_of_day(out, &civil);
    out.push(b'.');
    padded::<3>(out, civil.millisecond);
    out.push(b'Z');
}

/// Writes a time such as `10/Oct/2000:13:55:36 +0000`.
pub(super) fn common(out: &mut Vec<u8>, time: SystemTime) {
    let civil = CivilTime::from(time);
    padded::<2>(out, civil.day);
    out.push(b'/');
    out.extend_from_slice(MONTHS[(civil.month as usize - 1) % MONTHS.len()]);
    out.push(b'/');
    padded::<4>(out, civil.year);
    out.push(b':');
    time_of_day(out, &civil);
    out.extend_from_slice(b" +0000");
}

fn time_of_day(out: &mut Vec<u8>, civil: &CivilTime) {
    padded::<2>(out, civil.hour);
    out.push(b':');
    padded::<2>(out, civil.minute);
    out.push(b':');
    padded::<2>(out, civil.second);
}
