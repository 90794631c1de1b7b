//! File descriptor exhaustion. Runs in a child process with a low limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::fs::File;
use std::process::Command;

use sluicegate_engine::clock::ManualClock;
use sluicegate_net::LimitedListener;
use support::{accept_all, connect, next_connection, settle, wait_until};

/// Enough for the listener itself and a few for the test.
const FD_LIMIT: usize = 400;

#[test]
fn accept_pauses_and_resumes_when_fds_run_out() {
    if std::env::var_os("WITH_FEW_FILES").is_none() {
        let this = std::env::current_exe().unwrap();
        let lowered = format!("ulimit -n {FD_LIMIT} && exec \"$0\" \"$@\"");
        let status = Command::new("sh").arg("-c").arg(lowered).arg(this).env("WITH_FEW_FILES", "1").status().unwrap();
        assert!(status.success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let error =
            LimitedListener::builder().max_connections(1_000).bind("127.0.0.1:0").await.unwrap_err().to_string();
        assert!(
            error.ends_with("but the limit of this process is 400: raise it (ulimit -n) or lower the settings"),
            "{error}"
        );

        let clock = ManualClock::new();
        let listener = LimitedListener::builder().max_connections(50).queue(0).clock(clock.clone());
        let listener = listener.bind("127.0.0.1:0").await.unwrap();
        let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
        let mut accepted = accept_all(listener);
        let client = connect(at).await;
        drop(next_connection(&mut accepted).await);
        drop(client);

        // One file descriptor is left for the client; accept finds none.
        let mut files = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
        files.pop();
        let client = connect(at).await;
        wait_until("accept ran out of file descriptors", || handle.counts().accept_errors == 1).await;
        settle().await;
        assert_eq!((handle.counts().accept_errors, clock.pending_timers()), (1, 1)); // and does not try over and over
        clock.advance(std::time::Duration::from_millis(100));
        wait_until("accept was retried", || handle.counts().accept_errors == 2).await;

        files.clear();
        clock.advance(std::time::Duration::from_millis(100));
        assert_eq!(next_connection(&mut accepted).await.peer_addr(), client.local_addr().unwrap());
    });
}
