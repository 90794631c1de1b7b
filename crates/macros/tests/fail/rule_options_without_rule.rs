#![allow(unused_variables)]

use sluicegate::{Limited, Sluice, limit};

#[limit("10/s", sluice = sluice)]
fn decided(sluice: &Sluice) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", with("account" = account))]
fn described(account: u32) -> Result<(), Limited> {
    Ok(())
}

#[limit("10/s", overload = is_overload)]
fn judged() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
