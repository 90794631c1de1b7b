//! Costs that are known only afterwards: reserve an estimate, settle what it was.
//!
//! `cargo run -p sluicegate --example reserve_and_settle`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;

use sluicegate::{Limit, Limiter, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    // A budget of language-model tokens: 60,000 a minute, 10,000 of them at once.
    let tokens = Limiter::builder()
        .limit(Limit::token_bucket(Rate::per_minute(60_000)?, 10_000)?)
        .reservable() // what is reserved counts as out until it is settled
        .build()?;
    let left = || tokens.status()[0].remaining;

    let pass = tokens.enter(4_000)?; // what it may take at most
    println!("reserved 4000: {} left", left());
    pass.settle(420); // what it took
    println!("settled 420: {} left", left());
    assert!(left() >= 9_580);

    let pass = tokens.enter(5_000)?;
    pass.give_back(); // the call never happened
    println!("given back: {} left", left());
    assert!(left() >= 9_580);

    // More than there ever is: "never", not "later".
    let refused = tokens.enter(20_000).err();
    println!("20000: {}", refused.map(|refused| refused.to_string()).unwrap_or_default());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
