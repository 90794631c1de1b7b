#![allow(unused_variables)]

use sluicegate::limit;

#[limit("10/s")]
fn silent() {}

fn main() {}
