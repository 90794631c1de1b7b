//! Long-lived responses are finished by the process that started them.

use std::net::TcpStream;
use std::sync::atomic::Ordering;

use super::load::Load;
use super::program::{Program, has_exited, rules, wait_exit, wait_until};
use super::raw_http::{RawHttp, get};
use super::upstream::{HALF_BYTES, Upstream};

#[test]
fn a_download_and_another_protocol_outlive_a_restart() {
    let upstream = Upstream::start();
    let mut program = Program::start("long", &rules(&upstream, ""), |_| {});
    let connect = || RawHttp::over(TcpStream::connect(program.at).unwrap());
    let mut download = connect();
    download.send("GET /download HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert!(download.head().unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(download.exactly(HALF_BYTES).unwrap(), vec![b'a'; HALF_BYTES]);
    wait_until("the server waits", || upstream.slow.load(Ordering::SeqCst) == 1);
    let mut chat = connect();
    chat.send("GET /chat HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert!(chat.head().unwrap().starts_with("HTTP/1.1 101 "));
    let mut send = |word: &str| {
        chat.send(word);
        assert_eq!(chat.exactly(word.len()).unwrap(), word.as_bytes());
    };
    send("before");
    let load = Load::on(program.at);
    load.wait_for_requests(50);
    // Three generations run at once: the first has both connections, the second has none left.
    let first = program.start_successor();
    send("after one");
    let second = program.start_successor();
    send("after two");
    wait_until("the second has ended", || has_exited(second));
    load.wait_for_requests(50);
    assert!(!has_exited(first));
    assert_eq!(get(program.at, "/"), Some(200));
    upstream.release.store(true, Ordering::SeqCst);
    assert_eq!(download.exactly(HALF_BYTES).unwrap(), vec![b'b'; HALF_BYTES]);
    send("to the last");
    drop(chat);
    assert!(wait_exit(&mut program.first).success());
    assert!(!program.log().contains("cut off"), "{}", program.log());
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
}
