//! The head of a request on its way through: checked, cleaned, and told where it comes from.

mod check;
mod cookies;
mod hops;
mod origin;
mod survey;

pub(crate) use check::{authority, check};
pub(crate) use cookies::join_cookies;
pub(crate) use hops::{is_upgrade, strip, strip_answer};
pub(crate) use origin::Origin;
pub(crate) use survey::Survey;
