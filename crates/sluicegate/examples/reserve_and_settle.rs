//! Actual costs: reserve an estimate, then settle the actual cost.
//!
//! `cargo run -p sluicegate --example reserve_and_settle`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;

use sluicegate::{Limit, Limiter, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    // A budget of language-model tokens: 60,000 per minute with a burst of 10,000.
    let tokens = Limiter::builder()
        .limit(Limit::token_bucket(Rate::per_minute(60_000)?, 10_000)?)
        .reservable() // reserved tokens count as used until they are settled
        .build()?;
    let remaining = || tokens.status()[0].remaining;

    let permit = tokens.enter(4_000)?; // the estimate
    println!("reserved 4000: {} remaining", remaining());
    permit.settle(420); // the actual cost
    println!("settled 420: {} remaining", remaining());
    assert!(remaining() >= 9_580);

    let permit = tokens.enter(5_000)?;
    permit.give_back(); // the call was not made
    println!("returned: {} remaining", remaining());
    assert!(remaining() >= 9_580);

    // More than the burst: the verdict is "never", not "later".
    let refused = tokens.enter(20_000).err();
    println!("20000: {}", refused.map(|refused| refused.to_string()).unwrap_or_default());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
