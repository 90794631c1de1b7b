//! Logs that are renamed while requests come in, as logrotate does.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::load::Load;
use crate::page::{blocks, read};
use crate::program::{Program, is_gone, rules, until};
use crate::talk::get;
use crate::upstream::Upstream;

/// How many requests a log has noted that nobody writes to any more; every line is whole.
fn noted(log: &Path) -> usize {
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
        load.go_on(100);
        let renamed = program.folder.join(format!("access.log.{number}"));
        fs::rename(&log, &renamed).unwrap();
        // Until it is told, it goes on in the renamed one.
        load.go_on(20);
        assert!(!log.exists(), "who renames a file wants it elsewhere");
        program.signal("USR1");
        until("a new one is there", || log.exists());
        // Whoever takes over goes on in the same file.
        if number == 1 {
            program.restart();
        }
        old.push(renamed);
    }
    load.go_on(100);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
    let counts: Vec<usize> = old.iter().chain([&log]).map(|log| noted(log)).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), done, "{counts:?}");
}

#[test]
fn a_log_is_rotated_as_the_page_shows_it() {
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
    until("a new one is there", || log.exists());
    assert_eq!(get(program.at, "/"), Some(200));
    until("it goes on there", || noted(&log) == 1);
    assert_eq!(noted(&program.folder.join("access.log.1")), 1);
}

/// A log that cannot be opened anew is no reason to stop, nor to lose anything.
#[test]
fn where_no_new_log_can_be_opened_the_old_one_goes_on() {
    let upstream = Upstream::start();
    let with_log = rules(&upstream, "").replace("  threads: 2\n", "  threads: 2\n  access_log: logs/access.log\n");
    let program = Program::start("stuck", &with_log, |folder| fs::create_dir_all(folder.join("logs")).unwrap());
    let (logs, away) = (program.folder.join("logs"), program.folder.join("away"));
    let load = Load::on(program.at);
    load.go_on(50);
    fs::rename(&logs, &away).unwrap();
    program.signal("USR1");
    // While it is written to, the last line may be there in part.
    let lines = || fs::read(away.join("access.log")).unwrap().iter().filter(|byte| **byte == b'\n').count();
    let before = lines();
    until("the old one goes on", || lines() > before + 50);
    fs::create_dir(&logs).unwrap();
    until("it is tried again", || logs.join("access.log").exists());
    load.go_on(50);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
    assert_eq!(noted(&away.join("access.log")) + noted(&logs.join("access.log")), done);
}
