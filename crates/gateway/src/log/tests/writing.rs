use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use sluicegate_config::settings::{self, LogFormat};

use super::super::request_id::RequestIds;
use super::super::{AccessLog, Line, LogThread};
use super::{plain, until};
use sluicegate_listen::PrivateFolder;

fn log(path: &Path) -> AccessLog {
    let file = path.to_str().unwrap().to_owned();
    AccessLog::open(&settings::AccessLog { file, format: LogFormat::Json }).unwrap()
}

fn note(log: &LogThread, request_id: &str) {
    log.write(&Line { request_id, ..plain() });
}

/// The ids in a log of whole lines.
fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    let id = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["request_id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn the_last_to_go_sees_to_it_that_all_is_written() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    let (log, thread) = {
        let log = log(&path);
        let thread = log.thread();
        (log, thread)
    };
    note(&thread, "1");
    drop(thread);
    let thread = log.thread();
    drop(log);
    note(&thread, "2");
    drop(thread);
    // Each thread has its own buffer, and one of them may be written before the other's line came.
    let mut found = ids(&path);
    found.sort_unstable();
    assert_eq!(found, ["1", "2"]);
}

#[test]
fn lines_are_added_to_a_file_that_strangers_cannot_read() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    for id in ["1", "2"] {
        note(&log(&path).thread(), id);
    }
    assert_eq!(ids(&path), ["1", "2"]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
}

#[test]
fn lines_come_without_being_asked_for() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    let log = log(&path);
    let thread = log.thread();
    note(&thread, "1");
    until("the writer comes by itself", || fs::metadata(&path).unwrap().len() > 0);
}

#[test]
fn a_renamed_file_is_left_and_a_new_one_begun() {
    let folder = PrivateFolder::new("log").unwrap();
    let (path, old) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = log(&path);
    let thread = log.thread();
    note(&thread, "1");
    fs::rename(&path, &old).unwrap();
    log.reopen();
    until("there is a new file", || path.exists());
    note(&thread, "2");
    drop((log, thread));
    assert_eq!(ids(&old), ["1"]);
    assert_eq!(ids(&path), ["2"]);
}

#[test]
fn a_file_that_cannot_be_reopened_is_tried_until_it_can() {
    let folder = PrivateFolder::new("log").unwrap();
    let (place, moved) = (folder.path().join("logs"), folder.path().join("moved"));
    fs::create_dir(&place).unwrap();
    let path = place.join("access.log");
    let log = log(&path);
    let thread = log.thread();
    fs::rename(&place, &moved).unwrap();
    log.reopen();
    until("it fails", || log.failures() > 0);
    note(&thread, "1");
    until("it goes on in the old file", || fs::metadata(moved.join("access.log")).unwrap().len() > 0);
    fs::create_dir(&place).unwrap();
    until("there is a new file", || path.exists());
    note(&thread, "2");
    drop((log, thread));
    assert_eq!(ids(&moved.join("access.log")), ["1"]);
    assert_eq!(ids(&path), ["2"]);
}

#[test]
fn lines_of_many_threads_are_whole_and_in_order() {
    const THREADS: usize = 8;
    const LINES: usize = 2_000;
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    let log = log(&path);
    let write = |thread: usize| {
        let log = log.thread();
        move || (0..LINES).for_each(|line| note(&log, &format!("{thread}-{line}")))
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(write(thread))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((log.lost(), log.failures()), (0, 0));
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
fn handles_may_be_shared_by_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<AccessLog>();
    shared::<LogThread>();
    shared::<RequestIds>();
}
