//! Both ends of HTTP/1, by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::program::GUARD;

/// One end of a connection that speaks HTTP/1.
pub(crate) struct Talk {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Talk {
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // What cannot be sent is not answered either.
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

    /// So many bytes; `None` if the connection ends first.
    pub(crate) fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        self.read_until(|bytes| (bytes.len() >= length).then_some(length))
    }

    /// Status, and whether the connection goes on.
    pub(crate) fn answer(&mut self) -> Option<(u16, bool)> {
        let head = self.head()?.to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        self.exactly(length(&head))?;
        Some((status, !head.contains("connection: close")))
    }
}

/// How long the body behind a head is.
pub(crate) fn length(head: &str) -> usize {
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    head.lines().find_map(length).unwrap_or(0)
}

pub(crate) fn get(at: SocketAddr, path: &str) -> Option<u16> {
    let mut talk = Talk::over(TcpStream::connect(at).ok()?);
    talk.send(format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n"));
    talk.answer().map(|(status, _)| status)
}
