//! One request over a connection of its own: enough for a gateway, an API and a driver of browsers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Guards against hanging; nothing is ever measured by it.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// Asks, and reads the answer to its end.
pub(crate) fn ask(
    at: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&at, GUARD)?;
    stream.set_read_timeout(Some(GUARD))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut told = Vec::new();
    // Some end the connection, some keep it all the same: then the length says how much there is.
    let mut buffer = [0; 16_384];
    while !is_whole(&told) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => told.extend_from_slice(&buffer[..read]),
        }
    }
    let told = String::from_utf8_lossy(&told);
    let (head, body) = told.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, body: body.to_owned() })
}

fn is_whole(told: &[u8]) -> bool {
    let Some(end) = told.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&told[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse::<usize>().ok()).is_some_and(|length| told.len() >= end + 4 + length)
}
