#![allow(unused_variables)]

use sluicegate::limit;

#[limit("10/s", on_limit = fewer)]
fn arguments(a: u32, b: String) -> u32 {
    a + b.len() as u32
}

fn fewer(a: u32) -> u32 {
    a
}

#[limit("10/s", on_limit = other)]
fn returned(a: u32) -> u32 {
    a
}

fn other(_: u32) -> String {
    String::new()
}

#[limit("10/s", on_limit = missing)]
fn absent() {}

fn main() {}
