//! The names of Unix sockets: taken over from the dead, left to the living, gone after a stop.

use std::os::unix::net::UnixListener;

use crate::program::{Program, refused};
use crate::support::folder::Folder;
use crate::support::place::Place;
use crate::support::resp::Resp;

const RULES: &str = "server: { resp: { unix: s.sock }, threads: 1 }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_left_behind_is_taken_over() {
    let mut program = Program::start(Folder::new(), RULES).await;
    program.kill().await;
    assert!(program.folder.at("s.sock").exists(), "nobody was left to take it away");
    let folder = std::mem::replace(&mut program.folder, Folder::new());
    let mut program = Program::start(folder, RULES).await;
    let place = Place::Unix(program.folder.at("s.sock"));
    assert!(Resp::to(&place).await.unwrap().ask(&["PING"]).await.is_ok());
    program.stop().await;
    assert!(!program.folder.at("s.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_there_is_left_alone() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.at("s.sock")).unwrap();
    let log = refused(&folder, RULES).await;
    assert!(log.contains("s.sock: somebody else does; stop that program, or choose another name"), "{log}");
    assert!(folder.at("s.sock").exists());
    drop(listener);
    std::fs::remove_file(folder.at("s.sock")).unwrap();
    folder.write("s.sock", "precious");
    let log = refused(&folder, RULES).await;
    assert!(log.contains("there is a file of that name, and it is no socket"), "{log}");
    assert_eq!(std::fs::read_to_string(folder.at("s.sock")).unwrap(), "precious");
    let log = refused(&folder, "server: { resp: { unix: missing/s.sock } }\n").await;
    assert!(log.contains("cannot listen at"), "{log}");
    let long = "x".repeat(200);
    let log = refused(&folder, &format!("server: {{ resp: {{ unix: {long}.sock }} }}\n")).await;
    assert!(log.contains("cannot listen at"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_start_leaves_no_name_behind() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let log = refused(&folder, &format!("server: {{ http: {{ unix: h.sock }}, resp: \"{at}\" }}\n")).await;
    assert!(log.contains(&format!("cannot listen at {at}: somebody else does")), "{log}");
    assert!(!folder.at("h.sock").exists(), "its name is gone with it");
}
