//! Keys and the order in which they are visited: the same for every side, made before measuring.

/// Scatters a counter over 64 bits without collisions (the finalizer of SplitMix64).
pub(crate) fn scatter(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`, the `nth` of a fixed uniform sequence.
#[inline]
pub(crate) fn uniform(nth: u32, bound: u32) -> u32 {
    ((u128::from(scatter(u64::from(nth))) * u128::from(bound)) >> 64) as u32
}

/// Writes the `nth` string key, 25 bytes as a tenant's user might be named, over what `key` held.
pub(crate) fn write_string(nth: u32, key: &mut String) {
    use std::fmt::Write as _;
    key.clear();
    write!(key, "tenant-{:04}:user-{nth:08}", nth % 1000).expect("a String takes every write");
}

/// The first `count` string keys.
pub(crate) fn strings(count: u32) -> Vec<String> {
    let mut key = String::new();
    (0..count)
        .map(|nth| {
            write_string(nth, &mut key);
            key.clone()
        })
        .collect()
}

/// The `nth` integer key.
#[inline]
pub(crate) fn integer(nth: u32) -> u64 {
    scatter(u64::from(nth) | 1 << 40)
}

/// Which key each of `visits` visits goes to, uniformly among `count`.
pub(crate) fn order(visits: u32, count: u32) -> Vec<u32> {
    (0..visits).map(|nth| uniform(nth, count)).collect()
}
