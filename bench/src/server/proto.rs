//! Envoy's rate limit service, generated from the server's protobuf files.

#![allow(unreachable_pub, missing_docs, dead_code, clippy::all, reason = "generated")]

tonic::include_proto!("rls");

pub(crate) use envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub(crate) use envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
pub(crate) use envoy::service::ratelimit::v3::rate_limit_response::Code;
pub(crate) use envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
pub(crate) use envoy::service::ratelimit::v3::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
pub(crate) use envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
