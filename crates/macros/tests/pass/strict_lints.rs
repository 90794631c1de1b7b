//! The expansion passes where a program forbids nearly everything.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused, unused_qualifications, unreachable_pub)]
#![deny(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::panic)]

use std::net::IpAddr;

use sluicegate::{Limited, limit};

/// Keyed, with a fallback and an argument that nobody looks at.
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

/// A type of the prelude may have been given another meaning.
pub mod shadowed {
    /// Not the usual one.
    pub enum Option {
        /// Nothing else.
        None,
    }
    /// Nor is this.
    pub struct Vec;

    /// Limited all the same.
    #[sluicegate::limit]
    pub fn shadowed() -> Result<(Option, Vec), sluicegate::Limited> {
        Ok((Option::None, Vec))
    }
}

fn main() {
    assert_eq!(create(IpAddr::from([127, 0, 0, 1]), 7), 1);
    assert!(shadowed::shadowed().is_ok());
    drop(mail("somebody"));
}
