#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", cost = weight)]
fn negative(weight: i32) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
