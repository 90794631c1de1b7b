#![allow(unused_variables)]

use sluicegate::limit;

#[limit("10/s", on_limit = at_once)]
async fn later() -> u32 {
    1
}

fn at_once() -> u32 {
    0
}

fn main() {}
