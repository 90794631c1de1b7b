//! A client that sends exactly the bytes it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::GUARD;

/// A connection, and what was read ahead on it.
pub struct Client {
    pub stream: TcpStream,
    ahead: Vec<u8>,
}

/// An answer of HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub fn connect(at: SocketAddr) -> Self {
        Self::over(TcpStream::connect(at).unwrap())
    }

    /// Connects from another address of this machine.
    pub fn connect_from(from: [u8; 4], at: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// A GET with this path, answered.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
        self.answer().expect("an answer")
    }

    /// The next answer to a request that may have a body in its answer; `None` if the connection ends first.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_to(true)
    }

    /// The next answer; one to HEAD has no body whatever its headers say.
    pub fn answer_to(&mut self, has_body: bool) -> Option<Answer> {
        let end = loop {
            match find(&self.ahead, b"\r\n\r\n") {
                Some(end) => break end,
                None if self.more() == 0 => return None,
                None => {}
            }
        };
        let head = String::from_utf8_lossy(&self.ahead[..end]).into_owned();
        self.ahead.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.trim().to_ascii_lowercase(), value.trim().to_owned())
        };
        let mut answer = Answer { status, headers: lines.map(header).collect(), body: Vec::new() };
        if status == 100 {
            return self.answer_to(has_body);
        }
        if has_body && status != 204 && status != 304 && status != 101 {
            answer.body = self.body(&answer)?;
        }
        Some(answer)
    }

    fn body(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        if answer.header("transfer-encoding") == Some("chunked") {
            return self.chunks();
        }
        match answer.header("content-length") {
            Some(length) => self.exactly(length.parse().unwrap()),
            None => {
                while self.more() > 0 {}
                Some(std::mem::take(&mut self.ahead))
            }
        }
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Some(body);
            }
            body.extend(self.exactly(size)?);
            self.line()?;
        }
    }

    /// A line without its end.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.ahead, b"\r\n") {
                let line = String::from_utf8_lossy(&self.ahead[..end]).into_owned();
                self.ahead.drain(..end + 2);
                return Some(line);
            }
            if self.more() == 0 {
                return None;
            }
        }
    }

    /// So many bytes; `None` if the connection ends first.
    pub fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < length {
            if self.more() == 0 {
                return None;
            }
        }
        Some(self.ahead.drain(..length).collect())
    }

    /// Whether the other side has closed, with nothing left to read.
    pub fn is_closed(&mut self) -> bool {
        self.ahead.is_empty() && self.more() == 0
    }

    /// All that comes until the other side closes.
    pub fn rest(mut self) -> Vec<u8> {
        while self.more() > 0 {}
        self.ahead
    }

    fn more(&mut self) -> usize {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.ahead.extend_from_slice(&buffer[..read]);
                read
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing to read: {error}"),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
