//! A rate-limited consumer with a limit on jobs in flight.
//!
//! `cargo run -p sluicegate --example paced_consumer`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use sluicegate::stream::StreamRateLimitExt;
use sluicegate::{Limit, Limiter, Rate};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A fast producer. The channel represents a broker with a backlog.
    let (sender, mut jobs) = mpsc::channel(100);
    for job in 1..=12 {
        sender.send(job).await?;
    }
    drop(sender);

    // At most three jobs in flight; after a burst of four, one job every two milliseconds.
    let rate = Limiter::new(Limit::token_bucket(Rate::per_second(500)?, 4)?);
    let start = Instant::now();
    stream::poll_fn(move |context| jobs.poll_recv(context))
        .limit_in_flight(3)?
        .rate_limit(&rate)
        .for_each_concurrent(None, async |job| {
            println!("job {:2}: started after {:?}", *job, start.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Dropping `job` here, or in a panic, releases its permit.
        })
        .await;
    assert!(start.elapsed() >= Duration::from_millis(16), "eight jobs wait for tokens");
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
