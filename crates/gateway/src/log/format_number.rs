//! Allocation-free formatting of numbers, durations and addresses, for each line of the access log. Integers are
//! written with `itoa`; `write!` with a width takes several times as long as the fixed widths here.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(super) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes the last `N` decimal digits, zero-padded.
pub(super) fn padded<const N: usize>(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits);
}

/// Writes seconds with microsecond precision: `0.001234`.
pub(super) fn seconds(out: &mut Vec<u8>, duration: Duration) {
    integer(out, duration.as_secs());
    out.push(b'.');
    padded::<6>(out, u64::from(duration.subsec_micros()));
}

/// Formats 16 hexadecimal digits in lower case.
pub(super) const fn hex(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let mut at = 0;
    while at < digits.len() {
        digits[at] = HEX[(value >> (60 - 4 * at)) as usize & 0xf];
        at += 1;
    }
    digits
}

pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            integer(out, first);
            for octet in rest {
                out.push(b'.');
                integer(out, octet);
            }
        }
        // Writing to memory does not fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}
