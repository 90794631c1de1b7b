//! What tests of the whole server share: a folder for its files, and clients of each protocol that connect as any
//! other program would.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part of it")]

pub mod caddy;
pub mod folder;
pub mod made;
pub mod nginx;
pub mod place;
pub mod resp;
pub mod rls;
pub mod served;
pub mod upstream;
pub mod web;

use std::time::{Duration, Instant};

/// Guards against hanging; nothing is ever measured by it.
pub const GUARD: Duration = Duration::from_secs(60);

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < GUARD, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Awaits something that must come.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(GUARD, work).await {
        Ok(done) => done,
        Err(_) => panic!("in vain: {what}"),
    }
}
