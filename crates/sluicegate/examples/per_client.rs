//! One limit per client, and two limits at once.
//!
//! `cargo run -p sluicegate --example per_client`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::net::IpAddr;

use sluicegate::{KeyedLimiter, Limiter};

fn main() -> Result<(), Box<dyn Error>> {
    // Anything that can be hashed can be a key. A hundred thousand clients are remembered, and never more.
    let limiter: KeyedLimiter<IpAddr> = Limiter::builder()
        .limit("300/1m".parse()?) // the long run
        .limit("2/1s".parse()?) // the burst; a refusal by one takes nothing from the other
        .build_keyed(100_000)?;

    let alice: IpAddr = "203.0.113.9".parse()?;
    let bob: IpAddr = "2001:db8::7".parse()?;
    for client in [alice, alice, alice, bob] {
        let decision = limiter.check(&client);
        let answer = if decision.is_allowed() { "200" } else { "429" };
        println!("{client}: {answer}, {} of {} left", decision.status.remaining, decision.status.limit);
    }
    assert!(!limiter.check(&alice).is_allowed());
    assert!(limiter.check(&bob).is_allowed());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
