//! Timestamps in UTC.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::Offset;

use super::format_number::padded;

const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
const MILLISECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Calendar date and time. Times before 1970 or after 9999 are clamped.
fn civil(time: SystemTime) -> DateTime {
    let time = Timestamp::try_from(time.max(SystemTime::UNIX_EPOCH));
    time.map_or(DateTime::MAX, |time| Offset::UTC.to_datetime(time))
}

/// Writes a time such as `2000-10-10T13:55:36.042Z`.
pub(super) fn rfc3339(out: &mut Vec<u8>, time: SystemTime) {
    // Writing to memory does not fail.
    let _ = MILLISECONDS.print_datetime(&civil(time), &mut *out);
    out.push(b'Z');
}

/// Writes a time such as `10/Oct/2000:13:55:36 +0000`, by hand: `strftime` takes three times as long, for each line.
pub(super) fn common(out: &mut Vec<u8>, time: SystemTime) {
    let civil = civil(time);
    padded::<2>(out, civil.day().unsigned_abs().into());
    out.push(b'/');
    out.extend_from_slice(MONTHS[(civil.month().unsigned_abs() as usize - 1) % MONTHS.len()]);
    out.push(b'/');
    padded::<4>(out, civil.year().unsigned_abs().into());
    out.push(b':');
    // Writing to memory does not fail.
    let _ = SECONDS.print_time(&civil.time(), &mut *out);
    out.extend_from_slice(b" +0000");
}
