//! Protobuf messages, generated from `proto/`.

#![allow(unreachable_pub, missing_docs, clippy::all, reason = "generated")]

tonic::include_proto!("rls");

/// The file descriptor set, for reflection.
pub(crate) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rls.bin"));

pub(crate) use envoy::config::core::v3::HeaderValue;
pub(crate) use envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub(crate) use envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
pub(crate) use envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub(crate) use envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
pub(crate) use envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
