//! Pacing threads: wait for a turn instead of being refused.
//!
//! `cargo run -p sluicegate --example pace_callers`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::{Limit, Limiter, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    // One every two milliseconds, first in, first out.
    let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(500)?, 10)?);
    let begun = Instant::now();

    thread::scope(|scope| {
        for worker in 1..=4 {
            let paced = paced.clone(); // clones share one state
            scope.spawn(move || match paced.acquire().within(Duration::from_secs(1)).blocking() {
                Ok(_pass) => println!("worker {worker}: {:?} after the start", begun.elapsed()),
                Err(refused) => println!("worker {worker}: {refused}"),
            });
        }
    });
    // The first went at once, the others two milliseconds apart.
    assert!(begun.elapsed() >= Duration::from_millis(6));

    // Who cannot make it is told at once, and why.
    let hasty = Limiter::new("1/1h".parse()?);
    hasty.check();
    let refused = hasty.acquire().within(Duration::from_secs(1)).blocking().err();
    println!("hasty: {}", refused.map(|refused| refused.to_string()).unwrap_or_default());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
