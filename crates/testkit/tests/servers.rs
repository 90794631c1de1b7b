//! Tests that servers start, respond and leave no process or directory behind.

use std::fs;
use std::net::TcpStream;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluicegate_testkit::servers::{RabbitMq, RedisServer};

/// Processes started with this directory in their environment.
fn processes_with_home(home_dir: &Path) -> Vec<PathBuf> {
    let home = home_dir.to_string_lossy().into_owned();
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
fn redis_instances_are_isolated_and_stop_on_drop() {
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
fn a_panicking_test_stops_its_server() {
    let panicked = catch_unwind(|| {
        let redis = RedisServer::start().unwrap();
        std::panic::panic_any(redis.process_id());
    });
    let process = *panicked.unwrap_err().downcast::<u32>().unwrap();
    assert!(!is_running(process));
}

#[test]
fn a_failed_start_reports_the_server_output() {
    let error = RedisServer::start_with(&["--no-such-option", "1"]).unwrap_err().to_string();
    assert!(error.starts_with("redis-server exited") && error.contains("no-such-option"), "{error}");
}

#[test]
fn rabbitmq_leaves_no_process_and_no_directory() {
    let rabbit = RabbitMq::start().unwrap();
    let (processes, home_dir) = (rabbit.process_ids(), rabbit.home_dir().to_owned());
    assert!(processes.iter().all(|process| is_running(*process)) && home_dir.exists());
    assert!(!processes_with_home(&home_dir).is_empty());
    drop(rabbit);
    assert!(!processes.iter().any(|process| is_running(*process)));
    // Helper processes exit after they notice that the server is gone.
    let start = Instant::now();
    while !processes_with_home(&home_dir).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "still running: {:?}", processes_with_home(&home_dir));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!home_dir.exists());
}
