//! gRPC itself, for calls of one message and one answer.
//!
//! tonic would do, and does for health and reflection; but it boxes the call, the stream of messages and
//! the body. Decisions are made a hundred thousand times a second, and are small: what carries them counts.

mod body;
mod deadline;
mod message;

pub(crate) use body::AnswerBody;
pub(super) use body::{answer, plain, refuse};
pub(super) use deadline::timeout;
pub(super) use message::Receiving;
