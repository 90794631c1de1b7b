#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit(rule = "")]
fn unnamed() -> Result<(), Limited> {
    Ok(())
}

#[limit(rule = orders)]
fn no_text() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
