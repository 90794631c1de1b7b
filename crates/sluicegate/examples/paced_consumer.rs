//! A consumer held to a rate, with a few jobs in flight at once.
//!
//! `cargo run -p sluicegate --example paced_consumer`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use sluicegate::stream::StreamLimits;
use sluicegate::{Limit, Limiter, Rate};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A producer in a hurry. The channel stands for a broker: it keeps what nobody has taken yet.
    let (sender, mut jobs) = mpsc::channel(100);
    for job in 1..=12 {
        sender.send(job).await?;
    }
    drop(sender);

    // At most three at once, and one every two milliseconds after the first four.
    let rate = Limiter::new(Limit::token_bucket(Rate::per_second(500)?, 4)?);
    let begun = Instant::now();
    stream::poll_fn(move |context| jobs.poll_recv(context))
        .limit_in_flight(3)?
        .paced(&rate)
        .for_each_concurrent(None, async |job| {
            println!("job {:2}: begun after {:?}", *job, begun.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Dropping `job` here, or in a panic, lets the next one come.
        })
        .await;
    assert!(begun.elapsed() >= Duration::from_millis(16), "eight jobs had to wait for their tokens");
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
