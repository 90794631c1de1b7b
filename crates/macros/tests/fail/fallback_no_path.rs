#![allow(unused_variables)]

use sluicegate::limit;

#[limit("10/s", on_limit = |a| a)]
fn closure(a: u32) -> u32 {
    a
}

#[limit("10/s", on_limit = busy())]
fn call() -> u32 {
    1
}

fn busy() -> u32 {
    0
}

fn main() {}
