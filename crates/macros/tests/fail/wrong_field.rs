#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit(token_bucket("10/s", brust = 20))]
fn slip() -> Result<(), Limited> {
    Ok(())
}

#[limit(token_bucket(10, burst = 20))]
fn no_rate() -> Result<(), Limited> {
    Ok(())
}

#[limit(token_bucket("10/s", burst = "many"))]
fn no_number() -> Result<(), Limited> {
    Ok(())
}

#[limit(sliding_window("10/1s", cells = 2000000))]
fn cells() -> Result<(), Limited> {
    Ok(())
}

#[limit(warm_up("10/s"))]
fn over() -> Result<(), Limited> {
    Ok(())
}

#[limit(fixed_window("10/s", align = "noon"))]
fn align() -> Result<(), Limited> {
    Ok(())
}

#[limit(concurrency("50"))]
fn text() -> Result<(), Limited> {
    Ok(())
}

#[limit(concurrency())]
fn empty() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
