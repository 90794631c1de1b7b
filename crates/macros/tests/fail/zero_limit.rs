#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("0/s")]
fn none() -> Result<(), Limited> {
    Ok(())
}

#[limit(concurrency(0))]
fn nobody() -> Result<(), Limited> {
    Ok(())
}

#[limit(token_bucket("10/s", burst = 0))]
fn no_burst() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
