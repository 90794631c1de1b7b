//! What takes its time is finished by the process that began it.

use std::net::TcpStream;
use std::sync::atomic::Ordering;

use crate::load::Load;
use crate::program::{Program, ended, is_gone, rules, until};
use crate::talk::{Talk, get};
use crate::upstream::{HALF, Upstream};

#[test]
fn a_download_and_another_protocol_outlive_a_restart() {
    let upstream = Upstream::start();
    let mut program = Program::start("long", &rules(&upstream, ""), |_| {});
    let connect = || Talk::over(TcpStream::connect(program.at).unwrap());
    let mut download = connect();
    download.send("GET /download HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert!(download.head().unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(download.exactly(HALF).unwrap(), vec![b'a'; HALF]);
    until("the server waits", || upstream.slow.load(Ordering::SeqCst) == 1);
    let mut chat = connect();
    chat.send("GET /chat HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert!(chat.head().unwrap().starts_with("HTTP/1.1 101 "));
    let mut say = |word: &str| {
        chat.send(word);
        assert_eq!(chat.exactly(word.len()).unwrap(), word.as_bytes());
    };
    say("before");
    let load = Load::on(program.at);
    load.go_on(50);
    // Three generations are there at once: the first has both, the second has nothing left to do.
    let first = program.succeed();
    say("after one");
    let second = program.succeed();
    say("after two");
    until("the second has ended", || is_gone(second));
    load.go_on(50);
    assert!(!is_gone(first));
    assert_eq!(get(program.at, "/"), Some(200));
    upstream.release.store(true, Ordering::SeqCst);
    assert_eq!(download.exactly(HALF).unwrap(), vec![b'b'; HALF]);
    say("to the last");
    drop(chat);
    assert!(ended(&mut program.first).success());
    assert!(!program.log().contains("cut off"), "{}", program.log());
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
}
