//! Access log rotation under load, as logrotate does it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::load::Load;
use super::page::{blocks, read};
use super::program::{Program, has_exited, rules, wait_until};
use super::raw_http::get;
use super::upstream::Upstream;

/// Number of requests in a finished log; every line is complete.
fn logged_lines(log: &Path) -> usize {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    assert!(text.lines().all(|line| line.starts_with("{\"time\":") && line.ends_with('}')), "{text}");
    text.lines().count()
}

#[test]
fn no_line_is_lost_by_rotations_under_load() {
    let upstream = Upstream::start();
    let with_log = rules(&upstream, "").replace("  threads: 2\n", "  threads: 2\n  access_log: access.log\n");
    let mut program = Program::start("rotation", &with_log, |_| {});
    let log = program.folder.join("access.log");
    let load = Load::on(program.at);
    let mut old = Vec::new();
    for number in 0..4 {
        load.wait_for_requests(100);
        let renamed = program.folder.join(format!("access.log.{number}"));
        fs::rename(&log, &renamed).unwrap();
        // Until the signal, it continues to write to the renamed file.
        load.wait_for_requests(20);
        assert!(!log.exists(), "who renames a file wants it elsewhere");
        program.signal("USR1");
        wait_until("a new one is there", || log.exists());
        // The successor continues in the same file.
        if number == 1 {
            program.restart();
        }
        old.push(renamed);
    }
    load.wait_for_requests(100);
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
    let counts: Vec<usize> = old.iter().chain([&log]).map(|log| logged_lines(log)).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), done, "{counts:?}");
}

#[test]
fn documented_log_rotation_works() {
    let blocks = blocks(&read("docs/access-log.md"));
    let shown = &blocks.iter().find(|block| block.text.contains("kill -USR1")).unwrap().text;
    let upstream = Upstream::start();
    let with_log = rules(&upstream, "").replace("  threads: 2\n", "  threads: 2\n  access_log: access.log\n");
    let program = Program::start("rotated", &with_log, |_| {});
    assert_eq!(get(program.at, "/"), Some(200));
    let mut shell = Command::new("bash");
    shell.args(["-c", shown]).env("pid", program.now.to_string()).current_dir(&program.folder);
    assert!(shell.status().unwrap().success());
    let log = program.folder.join("access.log");
    wait_until("a new one is there", || log.exists());
    assert_eq!(get(program.at, "/"), Some(200));
    wait_until("logging continues in the new file", || logged_lines(&log) == 1);
    assert_eq!(logged_lines(&program.folder.join("access.log.1")), 1);
}

/// If a log cannot be reopened, the process keeps serving and no line is lost.
#[test]
fn a_failed_log_reopen_keeps_the_old_file() {
    let upstream = Upstream::start();
    let with_log = rules(&upstream, "").replace("  threads: 2\n", "  threads: 2\n  access_log: logs/access.log\n");
    let program = Program::start("stuck", &with_log, |folder| fs::create_dir_all(folder.join("logs")).unwrap());
    let (logs, away) = (program.folder.join("logs"), program.folder.join("away"));
    let load = Load::on(program.at);
    load.wait_for_requests(50);
    fs::rename(&logs, &away).unwrap();
    program.signal("USR1");
    // The last line may be incomplete while it is written.
    let lines = || fs::read(away.join("access.log")).unwrap().iter().filter(|byte| **byte == b'\n').count();
    let before = lines();
    wait_until("logging continues in the old file", || lines() > before + 50);
    fs::create_dir(&logs).unwrap();
    wait_until("the write is retried", || logs.join("access.log").exists());
    load.wait_for_requests(50);
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
    assert_eq!(logged_lines(&away.join("access.log")) + logged_lines(&logs.join("access.log")), done);
}
