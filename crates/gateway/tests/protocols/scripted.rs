//! A server that runs a function on each connection.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// A scripted server on raw bytes.
pub(crate) struct RawServer {
    pub(crate) at: SocketAddr,
}

impl RawServer {
    /// Runs the function for each connection, on a thread of its own.
    pub(crate) fn new(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let converse = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, converse) = (stream.unwrap(), Arc::clone(&converse));
                std::thread::spawn(move || converse(stream));
            }
        });
        Self { at }
    }
}

/// The head of the next request, up to the empty line; `None` if the connection ends first.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}
