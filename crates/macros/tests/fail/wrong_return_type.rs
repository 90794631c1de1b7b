#![allow(unused_variables)]

use sluicegate::limit;

#[limit("10/s")]
fn number() -> u32 {
    1
}

#[limit("10/s")]
async fn option() -> Option<u32> {
    None
}

fn main() {}
