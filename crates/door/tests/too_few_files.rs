//! A process that may not open one more file. Alone in its process, which is started anew with few of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::fs::File;
use std::process::Command;

use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::ManualClock;
use support::{connect, next, open, settle, until};

/// What the door itself asks for, and a little more for the test.
const FILES: usize = 400;

#[test]
fn the_door_pauses_and_goes_on() {
    if std::env::var_os("WITH_FEW_FILES").is_none() {
        let this = std::env::current_exe().unwrap();
        let lowered = format!("ulimit -n {FILES} && exec \"$0\" \"$@\"");
        let status = Command::new("sh").arg("-c").arg(lowered).arg(this).env("WITH_FEW_FILES", "1").status().unwrap();
        assert!(status.success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let error = FrontDoor::builder().max_connections(1_000).bind("127.0.0.1:0").await.unwrap_err().to_string();
        assert!(error.ends_with("but this process may open 400: raise that (ulimit -n) or lower them"), "{error}");

        let clock = ManualClock::new();
        let door = FrontDoor::builder().max_connections(50).queue(0).clock(clock.clone());
        let door = door.bind("127.0.0.1:0").await.unwrap();
        let (at, handle) = (door.local_addr().unwrap(), door.handle());
        let mut inside = open(door);
        let client = connect(at).await;
        drop(next(&mut inside).await);
        drop(client);

        // One file is left for the client; the door finds none.
        let mut files = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
        files.pop();
        let client = connect(at).await;
        until("the door has found none", || handle.counts().accept_errors == 1).await;
        settle().await;
        assert_eq!((handle.counts().accept_errors, clock.alarms()), (1, 1)); // and does not try over and over
        clock.advance(std::time::Duration::from_millis(100));
        until("it has tried again", || handle.counts().accept_errors == 2).await;

        files.clear();
        clock.advance(std::time::Duration::from_millis(100));
        assert_eq!(next(&mut inside).await.peer_addr(), client.local_addr().unwrap());
    });
}
