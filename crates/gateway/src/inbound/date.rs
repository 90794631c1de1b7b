//! The time as answers tell it.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long such a date is: `Sun, 06 Nov 1994 08:49:37 GMT`.
const LENGTH: usize = 29;

thread_local! {
    /// The second that was last told, and how. Most are told many times.
    static TOLD: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [0; LENGTH])) };
}

/// Adds a line of `Date`.
pub(super) fn write(output: &mut Vec<u8>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (told, mut text) = TOLD.get();
    if told != second {
        if let Ok(date) = <[u8; LENGTH]>::try_from(httpdate::fmt_http_date(now).as_bytes()) {
            text = date;
        }
        TOLD.set((second, text));
    }
    output.extend_from_slice(b"date: ");
    output.extend_from_slice(&text);
    output.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_date_is_a_line() {
        for _ in 0..2 {
            let mut output = Vec::new();
            super::write(&mut output);
            let line = String::from_utf8(output).unwrap();
            let date = line.strip_prefix("date: ").and_then(|line| line.strip_suffix("\r\n")).unwrap();
            httpdate::parse_http_date(date).unwrap();
        }
    }
}
