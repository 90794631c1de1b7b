#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("300/1min")]
fn unit() -> Result<(), Limited> {
    Ok(())
}

#[limit("300")]
fn per_what() -> Result<(), Limited> {
    Ok(())
}

#[limit(300)]
fn number() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
