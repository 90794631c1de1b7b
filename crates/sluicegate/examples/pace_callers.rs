//! Pacing: threads wait in a queue instead of being refused.
//!
//! `cargo run -p sluicegate --example pace_callers`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::{Limit, Limiter, Rate};

fn main() -> Result<(), Box<dyn Error>> {
    // One every two milliseconds, first in, first out.
    let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(500)?, 10)?);
    let start = Instant::now();

    thread::scope(|scope| {
        for worker in 1..=4 {
            let paced = paced.clone(); // clones share one state
            scope.spawn(move || match paced.acquire().within(Duration::from_secs(1)).blocking() {
                Ok(_permit) => println!("worker {worker}: {:?} after the start", start.elapsed()),
                Err(refused) => println!("worker {worker}: {refused}"),
            });
        }
    });
    // The first call starts immediately, the others at intervals of two milliseconds.
    assert!(start.elapsed() >= Duration::from_millis(6));

    // A call that cannot be admitted in time is refused immediately, with the reason.
    let strict = Limiter::new("1/1h".parse()?);
    strict.check();
    let refused = strict.acquire().within(Duration::from_secs(1)).blocking().err();
    println!("strict: {}", refused.map(|refused| refused.to_string()).unwrap_or_default());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
