#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/x", token_bucket("5/s", brust = 1), wiat = "1s")]
fn all_at_once() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
