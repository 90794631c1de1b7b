#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit(token_buket("10/s"))]
fn slip() -> Result<(), Limited> {
    Ok(())
}

#[limit(concurrency = 5)]
fn no_brackets() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
