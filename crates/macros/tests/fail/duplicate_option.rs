#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", key = a, key = b)]
fn twice(a: u32, b: u32) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
