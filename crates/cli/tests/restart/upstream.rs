//! A program behind the gateway.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::program::until;
use crate::talk::{Talk, length};

/// How much of a download comes before and after it is told to go on.
pub(crate) const HALF: usize = 300_000;

/// It answers at once, and to POST with what it was sent; `/slow` only when it is told, and of `/download` the second
/// half. Whoever asks for another protocol hears what it says.
pub(crate) struct Upstream {
    pub(crate) at: SocketAddr,
    pub(crate) slow: Arc<AtomicUsize>,
    pub(crate) release: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Self { at: listener.local_addr().unwrap(), slow: Arc::default(), release: Arc::default() };
        let (slow, release) = (Arc::clone(&upstream.slow), Arc::clone(&upstream.release));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (slow, release) = (Arc::clone(&slow), Arc::clone(&release));
                let hold = move || {
                    slow.fetch_add(1, Ordering::SeqCst);
                    until("the slow one may go on", || release.load(Ordering::SeqCst));
                };
                thread::spawn(move || converse(&mut Talk::over(stream.unwrap()), hold));
            }
        });
        upstream
    }
}

fn converse(talk: &mut Talk, hold: impl Fn()) {
    while let Some(head) = talk.head() {
        let length = length(&head);
        let Some(body) = talk.exactly(length) else { return };
        if head.to_ascii_lowercase().contains("\r\nupgrade:") {
            talk.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
            while let Some(byte) = talk.exactly(1) {
                talk.send(byte);
            }
            return;
        }
        if head.starts_with("GET /slow") {
            hold();
        }
        if head.starts_with("GET /download") {
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * HALF));
            talk.send(vec![b'a'; HALF]);
            hold();
            talk.send(vec![b'b'; HALF]);
            continue;
        }
        let body = if head.starts_with("POST") { body } else { b"hello".to_vec() };
        talk.send([format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat());
    }
}
