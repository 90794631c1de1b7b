//! The head of a request on its way through: checked, cleaned, and told where it comes from.

mod check;
mod hops;
mod origin;

pub(crate) use check::{authority, check};
pub(crate) use hops::{is_upgrade, strip};
pub(crate) use origin::Origin;
