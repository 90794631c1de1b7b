//! A request, read and checked before anything is asked.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::bad_request::BadRequest;
use super::claim::window;
use super::proto::{RateLimitDescriptor, RateLimitRequest};

/// The most entries of one descriptor. Envoy's users have a handful.
pub(super) const MOST_ENTRIES: usize = 128;

/// The numbers of the fields that repeat.
const DESCRIPTORS: u32 = 2;
const ENTRIES: u32 = 1;

/// Reads a request off the wire. It is counted through first: two bytes on the wire can be a hundred in memory.
pub(super) fn read(bytes: Bytes, most: usize) -> Result<RateLimitRequest, BadRequest> {
    let mut descriptors = 0;
    each(&bytes, DESCRIPTORS, |descriptor| {
        descriptors += 1;
        if descriptors > most {
            return Err(BadRequest::TooManyDescriptors { most });
        }
        let mut entries = 0;
        each(descriptor, ENTRIES, |_| {
            entries += 1;
            let nth = descriptors;
            if entries > MOST_ENTRIES { Err(BadRequest::TooManyEntries { nth, most: MOST_ENTRIES }) } else { Ok(()) }
        })
    })?;
    let request = RateLimitRequest::decode(bytes)?;
    check(&request, most)?;
    Ok(request)
}

/// Shows each field of this number in a message.
fn each(
    mut message: &[u8],
    number: u32,
    mut show: impl FnMut(&[u8]) -> Result<(), BadRequest>,
) -> Result<(), BadRequest> {
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message)?;
        if tag == number && kind == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut message)?).unwrap_or(usize::MAX);
            // Cut short: the decoder gets as far as here, too, and says what is wrong.
            let Some((field, rest)) = message.split_at_checked(length) else { return Ok(()) };
            message = rest;
            show(field)?;
        } else {
            skip_field(kind, tag, &mut message, DecodeContext::default())?;
        }
    }
    Ok(())
}

/// Whether a request can be decided.
pub(super) fn check(request: &RateLimitRequest, most: usize) -> Result<(), BadRequest> {
    if request.domain.is_empty() {
        return Err(BadRequest::NoDomain);
    }
    if request.descriptors.is_empty() {
        return Err(BadRequest::NoDescriptors);
    }
    if request.descriptors.len() > most {
        return Err(BadRequest::TooManyDescriptors { most });
    }
    for (nth, RateLimitDescriptor { entries, limit, .. }) in (1..).zip(&request.descriptors) {
        if entries.is_empty() {
            return Err(BadRequest::NoEntries { nth });
        }
        if entries.len() > MOST_ENTRIES {
            return Err(BadRequest::TooManyEntries { nth, most: MOST_ENTRIES });
        }
        if entries.iter().any(|entry| entry.key.is_empty()) {
            return Err(BadRequest::NoKey { nth });
        }
        if let Some(limit) = limit {
            window(nth, limit)?;
        }
    }
    Ok(())
}

/// What a request costs by one of its descriptors.
pub(super) fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or(request.hits_addend.max(1).into())
}
