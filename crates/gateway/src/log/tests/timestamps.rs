use std::time::{Duration, SystemTime};

use super::super::timestamp::{common, rfc3339};

const DAY: u64 = 86_400;

fn written(write: fn(&mut Vec<u8>, SystemTime), time: SystemTime) -> String {
    let mut out = Vec::new();
    write(&mut out, time);
    String::from_utf8(out).unwrap()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn every_day_of_an_era_is_consecutive() {
    let mut day = 0;
    for year in 1970..2400 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, length) in (1..).zip(lengths) {
            for of_month in 1..=length {
                let expected = format!("{year:04}-{month:02}-{of_month:02}T23:59:59.000Z");
                assert_eq!(written(rfc3339, at(day * DAY + DAY - 1)), expected);
                day += 1;
            }
        }
    }
}

#[test]
fn known_timestamps_are_formatted() {
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    for (month, name) in names.into_iter().enumerate() {
        // The 15th of each month of 1970, or close to it.
        let entry = written(common, at(month as u64 * 30 * DAY + 15 * DAY + 3_600 + 2 * 60 + 3));
        assert!(entry.ends_with(&format!("/{name}/1970:01:02:03 +0000")), "{entry}");
    }
}

#[test]
fn out_of_range_times_are_clamped() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(written(rfc3339, before), "1970-01-01T00:00:00.000Z");
    let last = "9999-12-31T23:59:59.999Z";
    assert_eq!(written(rfc3339, at(253_402_300_799) + Duration::from_millis(999)), last);
    assert_eq!(written(rfc3339, at(253_402_300_800)), last);
    assert_eq!(written(common, at(1 << 40)), "31/Dec/9999:23:59:59 +0000");
}
