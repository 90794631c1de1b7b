use std::fs::{self, File};
use std::io::{PipeReader, Read, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};
use sluicegate_config::settings::{self, AccessLogFormat};

use super::super::destination::LogDestination;
use super::super::{AccessLog, LogEntry, LogError, LogWriter};
use super::{minimal_entry, wait_until};
use sluicegate_net::PrivateDir;

const LONG_TIMEOUT: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Result<AccessLog, LogError> {
    let file = path.to_str().unwrap().to_owned();
    AccessLog::open(&settings::AccessLog { file, format: AccessLogFormat::Json })
}

fn write_entry(log: &LogWriter, index: u64) {
    log.write(&LogEntry { request_id: &index.to_string(), ..minimal_entry() });
}

/// A log that writes to a pipe.
fn pipe_log(close_timeout: Duration) -> (AccessLog, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    let destination = LogDestination::from(File::from(OwnedFd::from(writer)));
    (AccessLog::start(destination, AccessLogFormat::Json, close_timeout).unwrap(), reader)
}

/// Writes lines until this many were dropped; returns the number of lines written.
fn write_until_dropped(log: &AccessLog, writer: &LogWriter, dropped: u64) -> u64 {
    let mut entry = 0;
    while log.dropped_lines() < dropped {
        write_entry(writer, entry);
        entry += 1;
        assert!(entry < 1_000_000, "memory is bounded");
    }
    entry
}

/// Counts the lines and the dropped lines that the log reports; checks that lines are complete and in order.
fn count_lines(text: &str) -> (u64, u64) {
    let (mut lines, mut dropped) = (0, 0);
    for line in text.split_terminator('\n') {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        match line.get("dropped_lines") {
            Some(count) => dropped += count.as_u64().unwrap(),
            None => {
                assert_eq!(line["request_id"], (lines + dropped).to_string(), "the summary replaces the dropped lines");
                lines += 1;
            }
        }
    }
    (lines, dropped)
}

#[test]
fn writes_never_block_on_an_unread_pipe() {
    let (log, mut reader) = pipe_log(LONG_TIMEOUT);
    let thread = log.writer();
    let mut entry = write_until_dropped(&log, &thread, 1_000);
    let reading = thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    // Once the pipe is read, there is room again.
    let mut dropped = log.dropped_lines();
    wait_until("the buffer has space", || {
        write_entry(&thread, entry);
        entry += 1;
        log.dropped_lines() == std::mem::replace(&mut dropped, log.dropped_lines())
    });
    drop((log, thread));
    assert_eq!(count_lines(&reading.join().unwrap()), (entry - dropped, dropped));
}

#[test]
fn close_times_out() {
    let (log, reader) = pipe_log(Duration::ZERO);
    let thread = log.writer();
    write_until_dropped(&log, &thread, 1);
    drop((log, thread));
    drop(reader);
}

#[test]
fn a_closed_pipe_is_counted_and_survived() {
    let (log, reader) = pipe_log(LONG_TIMEOUT);
    drop(reader);
    let thread = log.writer();
    write_entry(&thread, 0);
    wait_until("the writer fails", || log.write_errors() > 0);
    write_until_dropped(&log, &thread, 10);
}

#[test]
fn a_full_disk_is_retried_without_losing_lines() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    symlink("/dev/full", &path).unwrap();
    let log = open(&path).unwrap();
    let thread = log.writer();
    for index in 0..1_000 {
        write_entry(&thread, index);
    }
    wait_until("the write is retried", || log.write_errors() > 2);
    fs::remove_file(&path).unwrap();
    log.reopen();
    wait_until("there is a new file", || path.exists());
    write_entry(&thread, 1_000);
    assert_eq!(log.dropped_lines(), 0);
    drop((log, thread));
    assert_eq!(count_lines(&fs::read_to_string(&path).unwrap()), (1_001, 0));
}

#[test]
fn a_disk_that_stays_full_drops_lines_without_blocking() {
    let log = open(Path::new("/dev/full")).unwrap();
    let thread = log.writer();
    write_until_dropped(&log, &thread, 100);
    wait_until("the writer fails", || log.write_errors() > 0);
}

/// A line that was partly written to the old file is complete in the new one.
#[test]
fn a_partial_line_is_rewritten_in_the_new_file() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("access.log");
    let (mut reader, writer) = pipe().unwrap();
    // Simulates a disk that accepts as much as fits into the pipe and then fails.
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK).unwrap();
    let destination = LogDestination { file: File::from(OwnedFd::from(writer)), path: Some(path.clone()) };
    let log = AccessLog::start(destination, AccessLogFormat::Json, LONG_TIMEOUT).unwrap();
    let thread = log.writer();
    for index in 0..1_000 {
        write_entry(&thread, index);
    }
    wait_until("the pipe is full", || log.write_errors() > 0);
    log.reopen();
    drop((log, thread));
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    let (complete, partial) = old.rsplit_once('\n').unwrap();
    assert!(!partial.is_empty(), "the pipe's size is no multiple of the lines'");
    let (lines, _) = count_lines(&format!("{complete}\n{}", fs::read_to_string(&path).unwrap()));
    assert_eq!(lines, 1_000);
}

#[test]
fn open_errors_name_a_remedy() {
    let folder = PrivateDir::new("log").unwrap();
    let refused = |path: &Path| open(path).map(drop).unwrap_err().to_string();
    let missing = folder.path().join("nowhere/access.log");
    assert_eq!(
        refused(&missing),
        format!(
            "cannot open the access log {}: No such file or directory (os error 2): create its directory first",
            missing.display()
        )
    );
    assert!(refused(folder.path()).ends_with(": it is a directory: configure a file in it"));
    let unread = folder.path().join("pipe");
    mknodat(CWD, &unread, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(refused(&unread).ends_with(": start the reader of this pipe first, or configure a file"));
}

#[test]
fn a_named_pipe_works() {
    let folder = PrivateDir::new("log").unwrap();
    let path = folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reading = thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    let mut log = None;
    wait_until("the pipe is read", || {
        log = open(&path).ok();
        log.is_some()
    });
    let thread = log.as_ref().unwrap().writer();
    for index in 0..5_000 {
        write_entry(&thread, index);
    }
    drop((log, thread));
    assert_eq!(count_lines(&reading.join().unwrap()), (5_000, 0));
}
