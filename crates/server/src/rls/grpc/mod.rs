//! Minimal gRPC implementation for unary calls.
//!
//! tonic would work, and serves health and reflection; but it boxes the call, the message stream and the body.
//! Decisions are small and happen a hundred thousand times a second, so this overhead counts.

mod body;
mod message;
mod timeout;

pub(crate) use body::GrpcBody;
pub(super) use body::{error_response, message_response, text_response};
pub(super) use message::MessageReader;
pub(super) use timeout::grpc_timeout;
