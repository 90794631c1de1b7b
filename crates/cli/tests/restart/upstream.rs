//! Upstream server behind the gateway.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::program::wait_until;
use super::raw_http::{RawHttp, length};

/// Size of each half of a download, before and after the release.
pub(crate) const HALF_BYTES: usize = 300_000;

/// Responds immediately, and echoes the body of a POST. `/slow` and the second half of `/download` wait for a
/// release. Upgraded connections echo.
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
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (slow, release) = (Arc::clone(&slow), Arc::clone(&release));
                let hold = move || {
                    slow.fetch_add(1, Ordering::SeqCst);
                    wait_until("the slow response is released", || release.load(Ordering::SeqCst));
                };
                thread::spawn(move || serve_connection(&mut RawHttp::over(stream.unwrap()), hold));
            }
        });
        upstream
    }
}

fn serve_connection(talk: &mut RawHttp, hold: impl Fn()) {
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
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * HALF_BYTES));
            talk.send(vec![b'a'; HALF_BYTES]);
            hold();
            talk.send(vec![b'b'; HALF_BYTES]);
            continue;
        }
        let body = if head.starts_with("POST") { body } else { b"hello".to_vec() };
        talk.send([format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat());
    }
}
