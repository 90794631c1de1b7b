#![allow(unused_variables)]

use sluicegate::limit;

struct OrderError;

#[limit("10/s")]
fn order() -> Result<u32, OrderError> {
    Ok(1)
}

fn main() {}
