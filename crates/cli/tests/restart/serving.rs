//! Restart, shutdown and invalid rules over plain HTTP/1.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::load::Load;
use super::page::{blocks, read};
use super::program::{Program, has_exited, rules, wait_exit, wait_until};
use super::raw_http::{RawHttp, get};
use super::upstream::Upstream;

#[test]
fn no_request_is_lost_by_restarts_under_load() {
    let upstream = Upstream::start();
    let more = "rules: [{ name: limited, match: /limited, limits: [3/1h] }]";
    let mut program = Program::start("restarts", &rules(&upstream, more), |_| {});
    let load = Load::on(program.at);
    load.wait_for_requests(100);
    for round in 0..4 {
        program.restart();
        load.wait_for_requests(100);
        // The new process serves the same port with the same rules and their state.
        let statuses: Vec<_> = (0..4).map(|_| get(program.at, "/limited").unwrap()).collect();
        assert_eq!(statuses, if round == 0 { [200, 200, 200, 429] } else { [429; 4] });
    }
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
}

/// The admin listener is passed on like the others, so operators can observe the restart.
#[test]
fn the_admin_api_responds_throughout_restarts() {
    let upstream = Upstream::start();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let more = format!("admin: {{ listen: \"{admin}\" }}");
    let mut program = Program::start("admin", &rules(&upstream, &more), |_| {});
    wait_until("the dashboard is up", || program.log().contains("dashboard at "));
    let load = Load::with_requests(admin, |_| "GET /v1/status HTTP/1.1\r\nHost: localhost".to_owned());
    for _ in 0..4 {
        let mut listener = RawHttp::over(TcpStream::connect(admin).unwrap());
        listener.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(listener.head().unwrap().starts_with("HTTP/1.1 200 "));
        let event = |bytes: &[u8]| bytes.windows(2).position(|end| end == b"\n\n");
        assert!(String::from_utf8(listener.read_until(event).unwrap()).unwrap().contains("event: tick"));
        load.wait_for_requests(100);
        program.restart();
        // The event stream ends cleanly, and the client can reconnect.
        let end = |bytes: &[u8]| bytes.ends_with(b"\r\n0\r\n\r\n").then_some(bytes.len());
        assert!(listener.read_until(end).is_some(), "cut off");
    }
    load.wait_for_requests(100);
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
}

#[test]
fn invalid_rules_do_not_stop_serving() {
    let upstream = Upstream::start();
    let mut program = Program::start("invalid", &rules(&upstream, ""), |_| {});
    let load = Load::on(program.at);
    let valid = fs::read_to_string(program.folder.join("rules.yaml")).unwrap();
    for invalid in
        ["rules: [{ nam: x }]\n", "gateway: { listen: LISTEN, routes: [{ path: /, upstream: unknown }] }\n", "rules: ["]
    {
        let failures = program.log().matches("the old process continues to serve").count();
        fs::write(program.folder.join("rules.yaml"), invalid.replace("LISTEN", &program.at.to_string())).unwrap();
        program.signal("USR2");
        wait_until("the error is logged", || {
            program.log().matches("the old process continues to serve").count() == failures + 1
        });
        load.wait_for_requests(50);
        assert!(program.first.try_wait().unwrap().is_none());
    }
    let log = program.log();
    assert!(log.contains("nam") && log.contains("unknown"), "{log}");
    // The corrected file works.
    fs::write(program.folder.join("rules.yaml"), valid).unwrap();
    program.restart();
    load.wait_for_requests(50);
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
}

/// As documented: an invalid file never reaches the running process.
#[test]
fn a_file_is_checked_and_then_applied() {
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
    let valid = fs::read_to_string(&file).unwrap();
    fs::write(&file, "rules: [").unwrap();
    assert!(!types_it(&program));
    assert!(!program.log().contains("the old process continues to serve"), "{}", program.log());
    fs::write(&file, valid + "rules: [{ name: one, match: /one, limits: [1/1h] }]\n").unwrap();
    program.restart_by(|program| assert!(types_it(program)));
    assert_eq!([get(program.at, "/one"), get(program.at, "/one")], [Some(200), Some(429)]);
}

#[test]
fn sigterm_drains_in_flight_requests() {
    let upstream = Upstream::start();
    let mut program = Program::start("stop", &rules(&upstream, ""), |_| {});
    let mut slow: Vec<RawHttp> = (0..5).map(|_| RawHttp::over(TcpStream::connect(program.at).unwrap())).collect();
    slow.iter_mut().for_each(|talk| talk.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n"));
    wait_until("all are in flight", || upstream.slow.load(Ordering::SeqCst) == 5);
    program.signal("TERM");
    wait_until("the signal is logged", || program.log().contains("SIGTERM received"));
    wait_until("no new connection is accepted", || get(program.at, "/").is_none_or(|status| status == 503));
    upstream.release.store(true, Ordering::SeqCst);
    for talk in &mut slow {
        assert_eq!(talk.read_response(), Some((200, false)));
    }
    assert_eq!(wait_exit(&mut program.first).code(), Some(0));
    assert!(!program.log().contains("aborted"), "{}", program.log());
}

#[test]
fn in_flight_requests_are_finished_by_the_old_process() {
    let upstream = Upstream::start();
    let mut program = Program::start("handed", &rules(&upstream, ""), |_| {});
    let mut slow = RawHttp::over(TcpStream::connect(program.at).unwrap());
    slow.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("it is in flight", || upstream.slow.load(Ordering::SeqCst) == 1);
    program.start_successor();
    assert_eq!(get(program.at, "/"), Some(200));
    assert!(program.first.try_wait().unwrap().is_none(), "the old one is still at it");
    upstream.release.store(true, Ordering::SeqCst);
    assert_eq!(slow.read_response(), Some((200, false)));
    assert!(wait_exit(&mut program.first).success());
    assert_eq!(get(program.at, "/"), Some(200));
}
