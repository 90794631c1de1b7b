//! Support for end-to-end tests of the server: a temporary directory for its files, and clients of each
//! protocol that connect over real sockets.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses only some of the helpers")]

pub mod caddy;
pub mod decision_server;
pub mod endpoint;
pub mod http_client;
pub mod nginx;
pub mod resp;
pub mod rls;
pub mod temp_dir;
pub mod test_certs;
pub mod upstream;

use std::time::{Duration, Instant};

/// Test timeout that only prevents a hang; no test measures with it.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until a condition holds.
pub async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < TEST_TIMEOUT, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Awaits a future with [`TEST_TIMEOUT`].
pub async fn with_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => panic!("timed out: {what}"),
    }
}
