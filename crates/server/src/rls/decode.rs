//! Decodes and validates RLS requests.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::bad_request::BadRequest;
use super::descriptor_check::override_window;
use super::proto::{RateLimitDescriptor, RateLimitRequest};

/// Maximum number of entries per descriptor. Typical requests have a handful.
pub(super) const MAX_ENTRIES: usize = 128;

/// Field numbers of the repeated fields.
const DESCRIPTORS_FIELD: u32 = 2;
const ENTRIES_FIELD: u32 = 1;

/// Decodes a request. Repeated fields are counted first: two encoded bytes can take a hundred bytes of memory.
pub(super) fn decode(bytes: Bytes, max_descriptors: usize) -> Result<RateLimitRequest, BadRequest> {
    let mut descriptors = 0;
    for_each_field(&bytes, DESCRIPTORS_FIELD, |descriptor| {
        descriptors += 1;
        if descriptors > max_descriptors {
            return Err(BadRequest::TooManyDescriptors { max: max_descriptors });
        }
        let mut entries = 0;
        for_each_field(descriptor, ENTRIES_FIELD, |_| {
            entries += 1;
            let number = descriptors;
            if entries > MAX_ENTRIES { Err(BadRequest::TooManyEntries { number, max: MAX_ENTRIES }) } else { Ok(()) }
        })
    })?;
    let request = RateLimitRequest::decode(bytes)?;
    validate(&request, max_descriptors)?;
    Ok(request)
}

/// Visits each field with this number in a message.
fn for_each_field(
    mut message: &[u8],
    number: u32,
    mut visit: impl FnMut(&[u8]) -> Result<(), BadRequest>,
) -> Result<(), BadRequest> {
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message)?;
        if tag == number && kind == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut message)?).unwrap_or(usize::MAX);
            // Truncated: the decoder also stops here and reports the error.
            let Some((field, rest)) = message.split_at_checked(length) else { return Ok(()) };
            message = rest;
            visit(field)?;
        } else {
            skip_field(kind, tag, &mut message, DecodeContext::default())?;
        }
    }
    Ok(())
}

/// Validates a request.
pub(super) fn validate(request: &RateLimitRequest, max_descriptors: usize) -> Result<(), BadRequest> {
    if request.domain.is_empty() {
        return Err(BadRequest::NoDomain);
    }
    if request.descriptors.is_empty() {
        return Err(BadRequest::NoDescriptors);
    }
    if request.descriptors.len() > max_descriptors {
        return Err(BadRequest::TooManyDescriptors { max: max_descriptors });
    }
    for (number, RateLimitDescriptor { entries, limit, .. }) in (1..).zip(&request.descriptors) {
        if entries.is_empty() {
            return Err(BadRequest::NoEntries { number });
        }
        if entries.len() > MAX_ENTRIES {
            return Err(BadRequest::TooManyEntries { number, max: MAX_ENTRIES });
        }
        if entries.iter().any(|entry| entry.key.is_empty()) {
            return Err(BadRequest::NoKey { number });
        }
        if let Some(limit) = limit {
            override_window(number, limit)?;
        }
    }
    Ok(())
}

/// The hits of one descriptor.
pub(super) fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or(request.hits_addend.max(1).into())
}
