#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit("10/s", kye = account)]
fn slip(account: u32) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", fallback = busy)]
fn other_word() -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", key)]
fn no_value(key: u32) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", account)]
fn no_name(account: u32) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
