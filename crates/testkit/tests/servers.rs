//! Servers start, answer, and leave nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::net::TcpStream;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluicegate_testkit::servers::{RabbitMq, RedisServer};

/// Processes that were started with this folder for their home.
fn at_home_in(folder: &Path) -> Vec<PathBuf> {
    let home = folder.to_string_lossy().into_owned();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let mentions = |path: &PathBuf| {
        let environ = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(&home)
    };
    processes.filter(mentions).collect()
}

fn is_running(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn every_redis_is_its_own_and_is_gone_with_its_owner() {
    let [one, other] = [RedisServer::start().unwrap(), RedisServer::start_with(&["--maxclients", "50"]).unwrap()];
    assert_ne!(one.port(), other.port());
    let (process, port) = (one.process_id(), one.port());
    assert!(is_running(process) && is_running(other.process_id()));
    drop(one);
    assert!(!is_running(process));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(TcpStream::connect(("127.0.0.1", other.port())).is_ok());
}

#[test]
fn a_test_that_panics_leaves_no_server() {
    let left = catch_unwind(|| {
        let redis = RedisServer::start().unwrap();
        std::panic::panic_any(redis.process_id());
    });
    let process = *left.unwrap_err().downcast::<u32>().unwrap();
    assert!(!is_running(process));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = RedisServer::start_with(&["--no-such-option", "1"]).unwrap_err().to_string();
    assert!(error.starts_with("redis-server stopped") && error.contains("no-such-option"), "{error}");
}

#[test]
fn rabbitmq_leaves_no_process_and_no_folder() {
    let rabbit = RabbitMq::start().unwrap();
    let (processes, folder) = (rabbit.process_ids(), rabbit.folder().to_owned());
    assert!(processes.iter().all(|process| is_running(*process)) && folder.exists());
    assert!(!at_home_in(&folder).is_empty());
    drop(rabbit);
    assert!(!processes.iter().any(|process| is_running(*process)));
    // Its own helpers go when they find it gone.
    let begun = Instant::now();
    while !at_home_in(&folder).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "still there: {:?}", at_home_in(&folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.exists());
}
