#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", wait = "soon")]
fn soon() -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", wait = 500)]
fn of_what() -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", wait = "0s")]
fn not_at_all() -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", max_waiting = 5)]
fn nobody_waits() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
