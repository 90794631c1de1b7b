#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit(
    "1/1s", "2/2s", "3/3s", "4/4s", "5/5s", "6/6s", "7/7s", "8/8s", "9/9s", "10/10s", "11/11s", "12/12s", "13/13s",
    "14/14s", "15/15s", "16/16s", "17/17s"
)]
fn seventeen() -> Result<(), Limited> {
    Ok(())
}

fn main() {}
