use sluicegate::{Limited, limit};

#[limit("10/s", key = accuont)]
fn slip(account: u32) -> Result<u32, Limited> {
    Ok(account)
}

fn main() {}
