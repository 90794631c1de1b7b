#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit]
struct Shop;

#[limit]
impl Shop {
    fn open(&self) -> Result<(), Limited> {
        Ok(())
    }
}

trait Opens {
    #[limit]
    fn open(&self) -> Result<(), Limited>;
}

fn main() {}
