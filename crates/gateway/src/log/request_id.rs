//! Request IDs, for correlation with other logs.

use std::array;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

use super::format_number::hex;

/// Maximum length of an accepted ID.
const MAX_ID_LENGTH: usize = 128;

/// A request ID: 32 hexadecimal digits, or the ID set by a trusted proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// Accepts an ID from a trusted proxy if it is safe to print anywhere: 1 to 128 characters, letters, digits and
    /// `._~+/=:-`.
    pub(crate) fn accept(received: &HeaderValue) -> Option<Self> {
        let bytes = received.as_bytes();
        let is_fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~+/=:-".contains(byte);
        ((1..=MAX_ID_LENGTH).contains(&bytes.len()) && bytes.iter().all(is_fine)).then(|| Self(received.clone()))
    }

    /// The ID as a header value.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }

    pub(crate) fn as_str(&self) -> &str {
        // It is visible ASCII.
        self.0.to_str().unwrap_or_default()
    }
}

/// Generator of request IDs for one thread.
///
/// An ID is the generator's number and a counter, 128 bits in total, encrypted with a secret permutation. IDs
/// of a process are therefore unique, and reveal neither their count nor the next ID. The permutation is a
/// three-round Feistel network over SipHash, with new keys in each process.
#[derive(Debug)]
pub(crate) struct RequestIdGenerator {
    rounds: [RandomState; 3],
    generator: u64,
    issued: AtomicU64,
}

impl RequestIdGenerator {
    pub(crate) fn new() -> Self {
        static ROUNDS: LazyLock<[RandomState; 3]> = LazyLock::new(|| array::from_fn(|_| RandomState::new()));
        static GENERATORS: AtomicU64 = AtomicU64::new(0);
        let generator = GENERATORS.fetch_add(1, Ordering::Relaxed);
        Self { rounds: ROUNDS.clone(), generator, issued: AtomicU64::new(0) }
    }

    /// Generates the next ID.
    pub(crate) fn next(&self) -> RequestId {
        let [first, second, third] = &self.rounds;
        let (mut left, mut right) = (self.generator, self.issued.fetch_add(1, Ordering::Relaxed));
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
