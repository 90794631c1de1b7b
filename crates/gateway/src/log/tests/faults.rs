use std::fs::{self, File};
use std::io::{PipeReader, Read, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};
use sluicegate_config::settings::{self, LogFormat};

use super::super::destination::Destination;
use super::super::{AccessLog, Line, LogError, LogThread};
use super::{plain, until};
use sluicegate_listen::PrivateFolder;

const LONG: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Result<AccessLog, LogError> {
    let file = path.to_str().unwrap().to_owned();
    AccessLog::open(&settings::AccessLog { file, format: LogFormat::Json })
}

fn note(log: &LogThread, nth: u64) {
    log.write(&Line { request_id: &nth.to_string(), ..plain() });
}

/// A log at one end of a pipe.
fn into_pipe(patience: Duration) -> (AccessLog, PipeReader) {
    let (reader, writer) = pipe().unwrap();
    let destination = Destination::from(File::from(OwnedFd::from(writer)));
    (AccessLog::start(destination, LogFormat::Json, patience).unwrap(), reader)
}

/// Notes requests until this many were lost, and says how many there were.
fn note_until_lost(log: &AccessLog, thread: &LogThread, lost: u64) -> u64 {
    let mut noted = 0;
    while log.lost() < lost {
        note(thread, noted);
        noted += 1;
        assert!(noted < 1_000_000, "memory has its bounds");
    }
    noted
}

/// How many lines there are, and how many the log says were lost. All are whole and in order.
fn account(text: &str) -> (u64, u64) {
    let (mut lines, mut lost) = (0, 0);
    for line in text.split_terminator('\n') {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        match line.get("lost_lines") {
            Some(count) => lost += count.as_u64().unwrap(),
            None => {
                assert_eq!(line["request_id"], (lines + lost).to_string(), "the note stands where lines are missing");
                lines += 1;
            }
        }
    }
    (lines, lost)
}

#[test]
fn nobody_waits_for_a_pipe_that_nobody_reads() {
    let (log, mut reader) = into_pipe(LONG);
    let thread = log.thread();
    let mut noted = note_until_lost(&log, &thread, 1_000);
    let reading = thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    // Once the pipe moves there is room again.
    let mut lost = log.lost();
    until("there is room", || {
        note(&thread, noted);
        noted += 1;
        log.lost() == std::mem::replace(&mut lost, log.lost())
    });
    drop((log, thread));
    assert_eq!(account(&reading.join().unwrap()), (noted - lost, lost));
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let (log, reader) = into_pipe(Duration::ZERO);
    let thread = log.thread();
    note_until_lost(&log, &thread, 1);
    drop((log, thread));
    drop(reader);
}

#[test]
fn a_reader_who_goes_away_is_counted_and_survived() {
    let (log, reader) = into_pipe(LONG);
    drop(reader);
    let thread = log.thread();
    note(&thread, 0);
    until("the writer fails", || log.failures() > 0);
    note_until_lost(&log, &thread, 10);
}

#[test]
fn a_full_disk_is_tried_again_and_nothing_is_lost_meanwhile() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    symlink("/dev/full", &path).unwrap();
    let log = open(&path).unwrap();
    let thread = log.thread();
    for nth in 0..1_000 {
        note(&thread, nth);
    }
    until("it is tried again", || log.failures() > 2);
    fs::remove_file(&path).unwrap();
    log.reopen();
    until("there is a new file", || path.exists());
    note(&thread, 1_000);
    assert_eq!(log.lost(), 0);
    drop((log, thread));
    assert_eq!(account(&fs::read_to_string(&path).unwrap()), (1_001, 0));
}

#[test]
fn a_disk_that_stays_full_loses_lines_and_never_waits() {
    let log = open(Path::new("/dev/full")).unwrap();
    let thread = log.thread();
    note_until_lost(&log, &thread, 100);
    until("the writer fails", || log.failures() > 0);
}

/// A line of which the old file got only a part is whole in the new one.
#[test]
fn a_torn_line_is_written_anew_elsewhere() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("access.log");
    let (mut reader, writer) = pipe().unwrap();
    // A disk that takes what fits into the pipe, and fails then.
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK).unwrap();
    let destination = Destination { file: File::from(OwnedFd::from(writer)), path: Some(path.clone()) };
    let log = AccessLog::start(destination, LogFormat::Json, LONG).unwrap();
    let thread = log.thread();
    for nth in 0..1_000 {
        note(&thread, nth);
    }
    until("the pipe is full", || log.failures() > 0);
    log.reopen();
    drop((log, thread));
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    let (whole, torn) = old.rsplit_once('\n').unwrap();
    assert!(!torn.is_empty(), "the pipe's size is no multiple of the lines'");
    let (lines, _) = account(&format!("{whole}\n{}", fs::read_to_string(&path).unwrap()));
    assert_eq!(lines, 1_000);
}

#[test]
fn what_cannot_be_opened_is_refused_with_a_remedy() {
    let folder = PrivateFolder::new("log").unwrap();
    let refused = |path: &Path| open(path).map(drop).unwrap_err().to_string();
    let missing = folder.path().join("nowhere/access.log");
    assert_eq!(
        refused(&missing),
        format!(
            "the access log {} cannot be opened: No such file or directory (os error 2): make its folder first",
            missing.display()
        )
    );
    assert!(refused(folder.path()).ends_with(": name a file in it"));
    let unread = folder.path().join("pipe");
    mknodat(CWD, &unread, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(refused(&unread).ends_with(": start who reads this pipe first, or name a file"));
}

#[test]
fn a_named_pipe_will_do() {
    let folder = PrivateFolder::new("log").unwrap();
    let path = folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reading = thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    let mut log = None;
    until("somebody reads", || {
        log = open(&path).ok();
        log.is_some()
    });
    let thread = log.as_ref().unwrap().thread();
    for nth in 0..5_000 {
        note(&thread, nth);
    }
    drop((log, thread));
    assert_eq!(account(&reading.join().unwrap()), (5_000, 0));
}
