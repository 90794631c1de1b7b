//! Ids by which a request is found again, here and in the logs of others.

use std::array;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

use super::number::hex;

/// The longest id that is taken over.
const LONGEST: usize = 128;

/// The id of a request: 32 hexadecimal digits, or what a trusted proxy calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The id that somebody trusted has given a request, if it can do no harm wherever it is printed: 1 to 128
    /// characters, letters, digits and `._~+/=:-`.
    pub(crate) fn accept(given: &HeaderValue) -> Option<Self> {
        let bytes = given.as_bytes();
        let is_fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~+/=:-".contains(byte);
        ((1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(is_fine)).then(|| Self(given.clone()))
    }

    /// For the heads of requests and answers.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }

    pub(crate) fn as_str(&self) -> &str {
        // It is visible ASCII.
        self.0.to_str().unwrap_or_default()
    }
}

/// Makes the ids of one thread.
///
/// An id is the generator's number and a count of its ids, 128 bits together, put through a secret permutation. So no
/// two ids of a process are the same, and nobody who sees some can tell how many there were or what the next will be.
/// The permutation is a Feistel network of three rounds over SipHash, and another one in each process.
#[derive(Debug)]
pub(crate) struct RequestIds {
    rounds: [RandomState; 3],
    number: u64,
    made: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        static ROUNDS: LazyLock<[RandomState; 3]> = LazyLock::new(|| array::from_fn(|_| RandomState::new()));
        static GENERATORS: AtomicU64 = AtomicU64::new(0);
        let number = GENERATORS.fetch_add(1, Ordering::Relaxed);
        Self { rounds: ROUNDS.clone(), number, made: AtomicU64::new(0) }
    }

    /// The next id.
    pub(crate) fn next(&self) -> RequestId {
        let [first, second, third] = &self.rounds;
        let (mut left, mut right) = (self.number, self.made.fetch_add(1, Ordering::Relaxed));
        left ^= first.hash_one(right);
        right ^= second.hash_one(left);
        left ^= third.hash_one(right);
        let mut digits = [0; 32];
        digits[..16].copy_from_slice(&hex(left));
        digits[16..].copy_from_slice(&hex(right));
        // Digits are always a good value.
        RequestId(HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("-")))
    }
}
