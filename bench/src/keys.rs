//! Keys and their order of access: the same for all contenders, generated before the timed part.

/// Maps a counter to a pseudo-random 64-bit number without collisions (the SplitMix64 finalizer).
pub(crate) fn scatter(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Number below `bound` at position `index` of a fixed uniform sequence.
#[inline]
pub(crate) fn uniform(index: u32, bound: u32) -> u32 {
    ((u128::from(scatter(u64::from(index))) * u128::from(bound)) >> 64) as u32
}

/// Overwrites `key` with the string key number `index`: 25 bytes in the form of a tenant and a user.
pub(crate) fn write_string(index: u32, key: &mut String) {
    use std::fmt::Write as _;
    key.clear();
    write!(key, "tenant-{:04}:user-{index:08}", index % 1000).expect("writing to a String succeeds");
}

/// The first `count` string keys.
pub(crate) fn strings(count: u32) -> Vec<String> {
    let mut key = String::new();
    (0..count)
        .map(|index| {
            write_string(index, &mut key);
            key.clone()
        })
        .collect()
}

/// Integer key number `index`.
#[inline]
pub(crate) fn integer(index: u32) -> u64 {
    scatter(u64::from(index) | 1 << 40)
}

/// Key indexes of `visits` accesses, uniformly distributed over `count` keys.
pub(crate) fn order(visits: u32, count: u32) -> Vec<u32> {
    (0..visits).map(|index| uniform(index, count)).collect()
}
