//! The expansion compiles under strict lints.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, unused_qualifications, unreachable_pub)]
#![deny(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::panic)]

use std::net::IpAddr;

use sluicegate::{Limited, limit};

/// Keyed, with a fallback and an unused argument.
#[limit("2/3s", key = ip, on_limit = busy)]
pub fn create(ip: IpAddr, _item: u32) -> u32 {
    1
}

fn busy(_ip: IpAddr, item: u32) -> u32 {
    item
}

/// With permits, a wait and a rule.
#[limit(rule = "mails", concurrency(5), wait = "10ms", max_waiting = 3, key = to, with("account" = to))]
pub async fn mail(to: &str) -> Result<usize, Limited> {
    Ok(to.len())
}

/// A one-line body, and a cost that is a bare number.
#[limit("10/s", cost = 2)]
pub fn brief() -> Result<u32, Limited> { Ok(1) }

/// A body with inner attributes.
#[limit("10/s", key = tenant, on_limit = counted)]
pub fn annotated((tenant, item): (u32, u32)) -> u32 {
    #![allow(clippy::let_and_return)]
    let it = item;
    it
}

fn counted((tenant, item): (u32, u32)) -> u32 {
    tenant + item
}

/// Never returns; neither does its fallback.
#[limit("10/s", on_limit = std::process::exit)]
pub fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// Prelude types may be shadowed.
pub mod shadowed {
    /// Shadows the prelude's type.
    pub enum Option {
        /// The only variant.
        None,
    }
    /// Shadows the prelude's type.
    pub struct Vec;

    /// A limited function among shadowed types.
    #[sluicegate::limit]
    pub fn shadowed() -> Result<(Option, Vec), sluicegate::Limited> {
        Ok((Option::None, Vec))
    }
}

fn main() {
    assert_eq!(create(IpAddr::from([127, 0, 0, 1]), 7), 1);
    assert!(shadowed::shadowed().is_ok());
    assert!((0..9).filter(|_| brief().is_ok()).count() == 5, "ten, two at a time");
    assert_eq!(annotated((1, 2)), 2);
    drop(mail("somebody"));
    leave(0);
}
