#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit]
const fn constant() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
