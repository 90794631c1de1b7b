//! What Sluicegate's own APIs have in common, the decision server's and the admin's.
//!
//! A call brings JSON, no more of it than was agreed ([`whole`], [`is_json`]). Whatever is wrong with it becomes a
//! [`Problem`], a document (RFC 9457) that shows what was sent ([`shown`]), tells what was probably meant ([`nearest`])
//! and names the remedy.

mod body;
mod nearest;
mod problem;

pub use body::{BodyError, is_json, whole};
pub use nearest::nearest;
pub use problem::{Kind, Nothing, Problem, shown};
