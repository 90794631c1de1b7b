#![allow(unused_variables, dead_code)]

use std::future::Future;
use std::pin::Pin;

use sluicegate::limit;

type Handled = Pin<Box<dyn Future<Output = u32> + Send>>;

// The form that `#[async_trait]` generates for an `async fn`.
#[limit(concurrency(1), on_limit = busy)]
fn handle() -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async { 1 })
}

fn busy() -> Handled {
    Box::pin(async { 0 })
}

#[limit("1/s")]
fn answer() -> impl Future<Output = u32> + Send {
    async { 1 }
}

fn main() {}
