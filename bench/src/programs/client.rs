//! A client's connection: HTTP/1.1 by hand, so that nothing but the other side is measured.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long an answer may take. Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that is kept.
pub(crate) struct Client {
    stream: TcpStream,
    /// Bytes that were read; those before `begin` have been taken.
    buffer: Vec<u8>,
    begin: usize,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Where an answer is in what was read.
struct Extent {
    status: u16,
    head: usize,
    whole: usize,
}

/// A request for `path` as browsers of no importance send it.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench.test\r\n\r\n").into_bytes()
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a guard");
        Self { stream, buffer: Vec::new(), begin: 0 }
    }

    /// Sends one request or several.
    pub(crate) fn send(&mut self, requests: &[u8]) {
        self.stream.write_all(requests).expect("the other side reads");
    }

    /// Waits for the next answer and returns its status.
    pub(crate) fn status(&mut self) -> u16 {
        let extent = self.next();
        self.take(&extent);
        extent.status
    }

    /// Reads what has come, which must not be nothing, and returns the status of the next answer if all of it is there.
    pub(crate) fn status_if_whole(&mut self) -> Option<u16> {
        self.read();
        let extent = extent(&self.buffer[self.begin..])?;
        self.take(&extent);
        Some(extent.status)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Sends one request and waits for its answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        let extent = self.next();
        let (head, body) = self.buffer[self.begin..self.begin + extent.whole].split_at(extent.head);
        let answer =
            Answer { status: extent.status, head: String::from_utf8_lossy(head).into_owned(), body: body.to_vec() };
        self.take(&extent);
        answer
    }

    fn next(&mut self) -> Extent {
        loop {
            if let Some(extent) = extent(&self.buffer[self.begin..]) {
                return extent;
            }
            self.read();
        }
    }

    fn read(&mut self) {
        let mut read = [0; 16 * 1024];
        let count = self.stream.read(&mut read).expect("an answer in time");
        assert!(count > 0, "the connection was closed before an answer");
        self.buffer.extend_from_slice(&read[..count]);
    }

    fn take(&mut self, extent: &Extent) {
        self.begin += extent.whole;
        if self.begin == self.buffer.len() {
            self.buffer.clear();
            self.begin = 0;
        }
    }
}

/// The first answer, if it is whole.
fn extent(bytes: &[u8]) -> Option<Extent> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&bytes[..head]).expect("a head in ASCII");
    let status = text.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = head + length.expect("an answer that says how long it is");
    (bytes.len() >= whole).then_some(Extent { status, head, whole })
}
