//! Limits per client: two limits on one key.
//!
//! `cargo run -p sluicegate --example per_client`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::net::IpAddr;

use sluicegate::{KeyedLimiter, Limiter};

fn main() -> Result<(), Box<dyn Error>> {
    // Any hashable type can be a key. The table holds at most 100,000 clients.
    let limiter: KeyedLimiter<IpAddr> = Limiter::builder()
        .limit("300/1m".parse()?) // sustained rate
        .limit("2/1s".parse()?) // burst; a refusal by one limit charges nothing to the other
        .build_keyed(100_000)?;

    let alice: IpAddr = "203.0.113.9".parse()?;
    let bob: IpAddr = "2001:db8::7".parse()?;
    for client in [alice, alice, alice, bob] {
        let decision = limiter.check(&client);
        let status = if decision.is_allowed() { "200" } else { "429" };
        println!("{client}: {status}, {} of {} remaining", decision.status.remaining, decision.status.limit);
    }
    assert!(!limiter.check(&alice).is_allowed());
    assert!(limiter.check(&bob).is_allowed());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
