//! Restarts, stops and bad rules, over plain HTTP/1.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::load::Load;
use crate::page::{blocks, read};
use crate::program::{Program, ended, is_gone, rules, until};
use crate::talk::{Talk, get};
use crate::upstream::Upstream;

#[test]
fn no_request_is_lost_by_restarts_under_load() {
    let upstream = Upstream::start();
    let more = "rules: [{ name: limited, match: /limited, limits: [3/1h] }]";
    let mut program = Program::start("restarts", &rules(&upstream, more), |_| {});
    let load = Load::on(program.at);
    load.go_on(100);
    for round in 0..4 {
        program.restart();
        load.go_on(100);
        // The new process serves at the same port, by the same rules, and remembers what was taken from them.
        let statuses: Vec<_> = (0..4).map(|_| get(program.at, "/limited").unwrap()).collect();
        assert_eq!(statuses, if round == 0 { [200, 200, 200, 429] } else { [429; 4] });
    }
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
}

/// The admin listener is handed over as the others are: whoever carries the pager sees all of a restart.
#[test]
fn the_admin_api_answers_throughout_restarts() {
    let upstream = Upstream::start();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let more = format!("admin: {{ listen: \"{admin}\" }}");
    let mut program = Program::start("admin", &rules(&upstream, &more), |_| {});
    until("the dashboard is there", || program.log().contains("dashboard at "));
    let load = Load::asking(admin, |_| "GET /v1/status HTTP/1.1\r\nHost: localhost".to_owned());
    for _ in 0..4 {
        let mut listener = Talk::over(TcpStream::connect(admin).unwrap());
        listener.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(listener.head().unwrap().starts_with("HTTP/1.1 200 "));
        let event = |bytes: &[u8]| bytes.windows(2).position(|end| end == b"\n\n");
        assert!(String::from_utf8(listener.read_until(event).unwrap()).unwrap().contains("event: tick"));
        load.go_on(100);
        program.restart();
        // Who listened is told that there is no more to come, and is welcome again.
        let end = |bytes: &[u8]| bytes.ends_with(b"\r\n0\r\n\r\n").then_some(bytes.len());
        assert!(listener.read_until(end).is_some(), "cut off");
    }
    load.go_on(100);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
}

#[test]
fn bad_rules_do_not_end_what_serves() {
    let upstream = Upstream::start();
    let mut program = Program::start("bad", &rules(&upstream, ""), |_| {});
    let load = Load::on(program.at);
    let good = fs::read_to_string(program.folder.join("rules.yaml")).unwrap();
    for bad in
        ["rules: [{ nam: x }]\n", "gateway: { listen: LISTEN, routes: [{ path: /, upstream: nobody }] }\n", "rules: ["]
    {
        let told = program.log().matches("the old one goes on").count();
        fs::write(program.folder.join("rules.yaml"), bad.replace("LISTEN", &program.at.to_string())).unwrap();
        program.signal("USR2");
        until("it is told why", || program.log().matches("the old one goes on").count() == told + 1);
        load.go_on(50);
        assert!(program.first.try_wait().unwrap().is_none());
    }
    let log = program.log();
    assert!(log.contains("nam") && log.contains("nobody"), "{log}");
    // Mended, it works.
    fs::write(program.folder.join("rules.yaml"), good).unwrap();
    program.restart();
    load.go_on(50);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
}

/// As the page shows it: a file that cannot be used does not even reach the program.
#[test]
fn a_file_is_checked_and_then_taken_up() {
    let blocks = blocks(&read("docs/gateway.md"));
    let shown = &blocks.iter().find(|block| block.text.contains("kill -USR2")).unwrap().text;
    let upstream = Upstream::start();
    let mut program = Program::start("checked", &rules(&upstream, ""), |_| {});
    let types_it = |program: &Program| {
        let folder = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-c", shown]).env("PATH", path).env("pid", program.now.to_string());
        shell.current_dir(&program.folder).output().unwrap().status.success()
    };
    let file = program.folder.join("rules.yaml");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, "rules: [").unwrap();
    assert!(!types_it(&program));
    assert!(!program.log().contains("the old one goes on"), "{}", program.log());
    fs::write(&file, good + "rules: [{ name: one, match: /one, limits: [1/1h] }]\n").unwrap();
    program.restart_by(|program| assert!(types_it(program)));
    assert_eq!([get(program.at, "/one"), get(program.at, "/one")], [Some(200), Some(429)]);
}

#[test]
fn told_to_stop_it_answers_what_is_under_way() {
    let upstream = Upstream::start();
    let mut program = Program::start("stop", &rules(&upstream, ""), |_| {});
    let mut slow: Vec<Talk> = (0..5).map(|_| Talk::over(TcpStream::connect(program.at).unwrap())).collect();
    slow.iter_mut().for_each(|talk| talk.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n"));
    until("all are under way", || upstream.slow.load(Ordering::SeqCst) == 5);
    program.signal("TERM");
    until("it has heard", || program.log().contains("told to stop"));
    until("nobody new is let in", || get(program.at, "/").is_none_or(|status| status == 503));
    upstream.release.store(true, Ordering::SeqCst);
    for talk in &mut slow {
        assert_eq!(talk.answer(), Some((200, false)));
    }
    assert_eq!(ended(&mut program.first).code(), Some(0));
    assert!(!program.log().contains("cut off"), "{}", program.log());
}

#[test]
fn what_is_under_way_at_a_restart_is_answered_by_the_old_process() {
    let upstream = Upstream::start();
    let mut program = Program::start("handed", &rules(&upstream, ""), |_| {});
    let mut slow = Talk::over(TcpStream::connect(program.at).unwrap());
    slow.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("it is under way", || upstream.slow.load(Ordering::SeqCst) == 1);
    program.succeed();
    assert_eq!(get(program.at, "/"), Some(200));
    assert!(program.first.try_wait().unwrap().is_none(), "the old one is still at it");
    upstream.release.store(true, Ordering::SeqCst);
    assert_eq!(slow.answer(), Some((200, false)));
    assert!(ended(&mut program.first).success());
    assert_eq!(get(program.at, "/"), Some(200));
}
