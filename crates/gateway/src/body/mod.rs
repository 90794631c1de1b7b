//! Request and response bodies that are streamed through the gateway.

mod request;
mod response;

pub(crate) use request::{BodyStatus, IncomingBody, RequestBody};
pub(crate) use response::{ResponseBody, ResponseGuard};
