use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use sluicegate_config::settings::{self, AccessLogFormat};

use super::super::request_id::RequestIdGenerator;
use super::super::{AccessLog, LogEntry, LogWriter};
use super::{minimal_entry, wait_until};
use sluicegate_net::PrivateDir;

fn open_log(path: &Path) -> AccessLog {
    let file = path.to_str().unwrap().to_owned();
    AccessLog::open(&settings::AccessLog { file, format: AccessLogFormat::Json }).unwrap()
}

fn write_entry(log: &LogWriter, request_id: &str) {
    log.write(&LogEntry { request_id, ..minimal_entry() });
}

/// The IDs in a log of complete lines.
fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is complete");
    let id = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["request_id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn dropping_the_last_handle_flushes() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    let (log, thread) = {
        let log = open_log(&path);
        let thread = log.writer();
        (log, thread)
    };
    write_entry(&thread, "1");
    drop(thread);
    let thread = log.writer();
    drop(log);
    write_entry(&thread, "2");
    drop(thread);
    // Each thread has its own buffer, and one may be flushed before the other has its line.
    let mut found = ids(&path);
    found.sort_unstable();
    assert_eq!(found, ["1", "2"]);
}

#[test]
fn lines_are_appended_and_the_file_is_private() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    for id in ["1", "2"] {
        write_entry(&open_log(&path).writer(), id);
    }
    assert_eq!(ids(&path), ["1", "2"]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
}

#[test]
fn lines_are_flushed_periodically() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    let log = open_log(&path);
    let thread = log.writer();
    write_entry(&thread, "1");
    wait_until("the writer wakes up by itself", || fs::metadata(&path).unwrap().len() > 0);
}

#[test]
fn reopen_switches_to_a_new_file() {
    let folder = PrivateDir::new("log").unwrap();
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = open_log(&path);
    let thread = log.writer();
    write_entry(&thread, "1");
    fs::rename(&path, &old).unwrap();
    log.reopen();
    wait_until("there is a new file", || path.exists());
    write_entry(&thread, "2");
    drop((log, thread));
    assert_eq!(ids(&old), ["1"]);
    assert_eq!(ids(&path), ["2"]);
}

#[test]
fn reopen_is_retried_until_it_succeeds() {
    let folder = PrivateDir::new("log").unwrap();
    let (directory, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    fs::create_dir(&directory).unwrap();
    let path = directory.join("access.log");
    let log = open_log(&path);
    let thread = log.writer();
    fs::rename(&directory, &moved).unwrap();
    log.reopen();
    wait_until("it fails", || log.write_errors() > 0);
    write_entry(&thread, "1");
    wait_until("it continues in the old file", || fs::metadata(moved.join("access.log")).unwrap().len() > 0);
    fs::create_dir(&directory).unwrap();
    wait_until("there is a new file", || path.exists());
    write_entry(&thread, "2");
    drop((log, thread));
    assert_eq!(ids(&moved.join("access.log")), ["1"]);
    assert_eq!(ids(&path), ["2"]);
}

#[test]
fn lines_of_many_threads_are_complete_and_ordered() {
    const THREADS: usize = 8;
    const LINES: usize = 2_000;
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    let log = open_log(&path);
    let write = |thread: usize| {
        let log = log.writer();
        move || (0..LINES).for_each(|line| write_entry(&log, &format!("{thread}-{line}")))
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(write(thread))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((log.dropped_lines(), log.write_errors()), (0, 0));
    drop(log);
    let mut next = HashMap::<String, usize>::new();
    for id in ids(&path) {
        let (thread, line) = id.split_once('-').unwrap();
        let next = next.entry(thread.to_owned()).or_default();
        assert_eq!(line, next.to_string());
        *next += 1;
    }
    assert_eq!(next.len(), THREADS);
    assert!(next.values().all(|&lines| lines == LINES));
}

#[test]
fn handles_are_send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<AccessLog>();
    shared::<LogWriter>();
    shared::<RequestIdGenerator>();
}
