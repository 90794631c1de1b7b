//! HTTP client with one connection per request, for the gateway, the API and the WebDriver.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Guards against hanging tests; no measurement uses it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// Sends a request and reads the complete response.
pub(crate) fn send_request(
    at: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<HttpResponse> {
    let mut stream = TcpStream::connect_timeout(&at, TEST_TIMEOUT)?;
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut received = Vec::new();
    // Some servers keep the connection open: then the length delimits the body.
    let mut buffer = [0; 16_384];
    while !is_complete(&received) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => received.extend_from_slice(&buffer[..read]),
        }
    }
    let received = String::from_utf8_lossy(&received);
    let (head, body) = received.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(HttpResponse { status, body: body.to_owned() })
}

fn is_complete(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse::<usize>().ok()).is_some_and(|length| bytes.len() >= end + 4 + length)
}
