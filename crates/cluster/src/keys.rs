//! Names of our keys in the store.
//!
//! `sluicegate:{203.0.113.9}:per-client:tb` is the bucket of one client under the rule `per-client`. The
//! part in braces, the *tag*, is the request's key alone: a Redis Cluster places keys by it, so all rules
//! that count by the same key stand in one slot and can be decided in one call.
//!
//! Whatever comes from outside is escaped: only letters, digits and a few harmless marks stand as they
//! are, so nothing in a key can end the tag, and no two keys, rules or layouts give one name. A tag that
//! would be long is replaced by its digest.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// What our keys begin with unless told otherwise.
pub(crate) const DEFAULT_PREFIX: &str = "sluicegate";

/// Longer tags become digests.
const LONGEST_TAG: usize = 100;

/// The slots of a Redis Cluster.
const SLOTS: u16 = 16_384;

/// A key in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey(pub(crate) Bytes);

impl StoreKey {
    /// The key of a rule's limits for one request's key.
    ///
    /// `key` is what [`hash_key`](sluicegate_engine::rule::key::hash_key) feeds to its hasher, empty if the
    /// rule has no key; `shape` is that of the [prepared limits](crate::prepared::PreparedLimits::shape).
    pub(crate) fn new(prefix: &str, rule: &str, key: &[u8], shape: &str) -> Self {
        let mut name = Vec::with_capacity(prefix.len() + rule.len() + key.len() + shape.len() + 8);
        push_escaped(&mut name, prefix.as_bytes());
        name.extend_from_slice(b":{");
        push_tag(&mut name, rule, key);
        name.extend_from_slice(b"}:");
        push_escaped(&mut name, rule.as_bytes());
        name.push(b':');
        name.extend_from_slice(shape.as_bytes());
        Self(name.into())
    }

    /// The slot a Redis Cluster keeps it in.
    pub(crate) fn slot(&self) -> u16 {
        crc16(tag_of(&self.0)) % SLOTS
    }

    /// A second key in the same slot.
    pub(crate) fn second(&self, suffix: &str) -> Bytes {
        [&self.0, b":".as_slice(), suffix.as_bytes()].concat().into()
    }
}

/// The part of a name by which the store places it.
fn tag_of(name: &[u8]) -> &[u8] {
    let Some(open) = name.iter().position(|byte| *byte == b'{') else { return name };
    let inside = &name[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => name,
        Some(close) => &inside[..close],
    }
}

/// Marks that no escaped text begins with, so that tags of different kinds differ.
const TAG_OF_RULE: u8 = b'*';
const TAG_OF_DIGEST: u8 = b'#';
const TAG_OF_UNKNOWN: u8 = b'?';

fn push_tag(name: &mut Vec<u8>, rule: &str, key: &[u8]) {
    let from = name.len();
    if key.is_empty() {
        name.push(TAG_OF_RULE);
        push_escaped(name, rule.as_bytes());
    } else if push_parts(name, key).is_none() {
        // Not what the engine writes, but bytes all the same.
        name.truncate(from);
        name.push(TAG_OF_UNKNOWN);
        push_escaped(name, key);
    }
    if name.len() - from > LONGEST_TAG {
        let digest = Sha256::digest(&name[from..]);
        name.truncate(from);
        name.push(TAG_OF_DIGEST);
        for byte in &digest[..16] {
            push_hex(name, *byte);
        }
    }
}

/// Each part of a key, with a comma between them. An address is told from a text of the same letters by
/// the mark before the text.
fn push_parts(name: &mut Vec<u8>, mut key: &[u8]) -> Option<()> {
    let mut first = true;
    while let Some((kind, rest)) = key.split_first() {
        if !std::mem::take(&mut first) {
            name.push(b',');
        }
        match kind {
            b'4' => {
                let (octets, rest) = rest.split_first_chunk::<4>()?;
                name.extend_from_slice(Ipv4Addr::from(*octets).to_string().as_bytes());
                key = rest;
            }
            b'6' => {
                let (octets, rest) = rest.split_first_chunk::<16>()?;
                // A colon ends nothing inside of the braces, but everywhere else it parts a name.
                let address = Ipv6Addr::from(*octets).to_string().replace(':', "_");
                name.push(b'@');
                name.extend_from_slice(address.as_bytes());
                key = rest;
            }
            b't' => {
                let (length, rest) = rest.split_first_chunk::<8>()?;
                let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                let (text, rest) = rest.split_at_checked(length)?;
                name.push(b'=');
                push_escaped(name, text);
                key = rest;
            }
            _ => return None,
        }
    }
    Some(())
}

fn push_escaped(name: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' | b'/' => name.push(*byte),
            _ => {
                name.push(b'%');
                push_hex(name, *byte);
            }
        }
    }
}

fn push_hex(name: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    name.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// CRC-16/XMODEM, bit by bit: tags are short.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 },
        )
    })
}
