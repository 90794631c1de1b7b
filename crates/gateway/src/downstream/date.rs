//! Cached `Date` header.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_LENGTH: usize = 29;

thread_local! {
    /// The last formatted second and its text; most seconds are written many times.
    static CACHED_DATE: Cell<(u64, [u8; DATE_LENGTH])> = const { Cell::new((u64::MAX, [0; DATE_LENGTH])) };
}

/// Appends a `Date` header line.
pub(super) fn write(output: &mut Vec<u8>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (cached_second, mut text) = CACHED_DATE.get();
    if cached_second != second {
        if let Ok(date) = <[u8; DATE_LENGTH]>::try_from(httpdate::fmt_http_date(now).as_bytes()) {
            text = date;
        }
        CACHED_DATE.set((second, text));
    }
    output.extend_from_slice(b"date: ");
    output.extend_from_slice(&text);
    output.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_date_header_is_valid() {
        for _ in 0..2 {
            let mut output = Vec::new();
            super::write(&mut output);
            let line = String::from_utf8(output).unwrap();
            let date = line.strip_prefix("date: ").and_then(|line| line.strip_suffix("\r\n")).unwrap();
            httpdate::parse_http_date(date).unwrap();
        }
    }
}
