//! Bodies on their way through, in both directions.

mod answer;
mod request;

pub(crate) use answer::{AnswerBody, Held};
pub(crate) use request::{BodyFate, RequestBody, Upload};
