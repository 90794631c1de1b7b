#![allow(unused_variables)]

use sluicegate::{Limited, Limiter, limit};

#[limit("10/s", limiter = limiter)]
fn both(limiter: &Limiter) -> Result<(), Limited> {
    Ok(())
}

#[limit(limiter = limiter, rule = "orders")]
fn rule(limiter: &Limiter) -> Result<(), Limited> {
    Ok(())
}

#[limit(limiter = limiter, max_waiting = 5, wait = "1s")]
fn bounds(limiter: &Limiter) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
