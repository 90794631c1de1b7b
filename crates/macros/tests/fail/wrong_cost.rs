#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", cost = weight)]
fn negative(weight: i32) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", cost = 0)]
fn nothing() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
