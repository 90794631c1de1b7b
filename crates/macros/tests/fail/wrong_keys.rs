#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", key = weight)]
fn not_hashed(weight: f64) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", max_keys = 100)]
fn no_key() -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", key = account, max_keys = 0)]
fn no_room(account: u32) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
