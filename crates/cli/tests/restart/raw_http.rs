//! Raw HTTP/1 connection, client or server side.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::program::TEST_TIMEOUT;

/// One end of an HTTP/1 connection.
pub(crate) struct RawHttp {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl RawHttp {
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A failed write shows up as a missing response.
        drop(self.stream.write_all(bytes.as_ref()));
    }

    pub(crate) fn read_until(&mut self, enough: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = enough(&self.ahead) {
                return Some(self.ahead.drain(..end).collect());
            }
            let mut buffer = [0; 4_096];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.ahead.extend_from_slice(&buffer[..read]),
            }
        }
    }

    pub(crate) fn head(&mut self) -> Option<String> {
        let end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        self.read_until(end).map(|head| String::from_utf8(head).unwrap())
    }

    /// Reads this many bytes; `None` if the connection ends first.
    pub(crate) fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        self.read_until(|bytes| (bytes.len() >= length).then_some(length))
    }

    /// Reads a response: its status, and true if the connection stays open.
    pub(crate) fn read_response(&mut self) -> Option<(u16, bool)> {
        let head = self.head()?.to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        self.exactly(length(&head))?;
        Some((status, !head.contains("connection: close")))
    }
}

/// Length of the body that follows a head.
pub(crate) fn length(head: &str) -> usize {
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    head.lines().find_map(length).unwrap_or(0)
}

pub(crate) fn get(at: SocketAddr, path: &str) -> Option<u16> {
    let mut talk = RawHttp::over(TcpStream::connect(at).ok()?);
    talk.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n"));
    talk.read_response().map(|(status, _)| status)
}
