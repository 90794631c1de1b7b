//! HTTP/1 client that sends bytes exactly as given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::TEST_TIMEOUT;

/// A connection with read-ahead bytes.
pub struct Client {
    pub stream: TcpStream,
    ahead: Vec<u8>,
}

/// An HTTP/1 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawResponse {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl RawResponse {
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

    /// Connects from another local address.
    pub fn connect_from(from: [u8; 4], at: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a GET and reads the response.
    pub fn get(&mut self, path: &str) -> RawResponse {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
        self.read_response().expect("a response")
    }

    /// Reads the next response, which may have a body; `None` if the connection ends first.
    pub fn read_response(&mut self) -> Option<RawResponse> {
        self.read_response_to(true)
    }

    /// Reads the next response; a response to HEAD has no body, regardless of its headers.
    pub fn read_response_to(&mut self, has_body: bool) -> Option<RawResponse> {
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
        let mut response = RawResponse { status, headers: lines.map(header).collect(), body: Vec::new() };
        if status == 100 {
            return self.read_response_to(has_body);
        }
        if has_body && status != 204 && status != 304 && status != 101 {
            response.body = self.body(&response)?;
        }
        Some(response)
    }

    fn body(&mut self, response: &RawResponse) -> Option<Vec<u8>> {
        if response.header("transfer-encoding") == Some("chunked") {
            return self.chunks();
        }
        match response.header("content-length") {
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

    /// A line without its line end.
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

    /// Reads exactly this many bytes; `None` if the connection ends first.
    pub fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < length {
            if self.more() == 0 {
                return None;
            }
        }
        Some(self.ahead.drain(..length).collect())
    }

    /// True if the peer has closed and nothing is left to read.
    pub fn is_closed(&mut self) -> bool {
        self.ahead.is_empty() && self.more() == 0
    }

    /// Everything until the peer closes.
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

fn find(bytes: &[u8], label: &[u8]) -> Option<usize> {
    bytes.windows(label.len()).position(|window| window == label)
}
