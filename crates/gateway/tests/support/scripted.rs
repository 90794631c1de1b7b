//! A server that runs a script on each connection, valid or not.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::TEST_TIMEOUT;

/// A server that stops on drop.
pub struct ScriptedServer {
    pub at: SocketAddr,
    state: Arc<ScriptState>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ScriptState {
    is_over: AtomicBool,
    accepted: AtomicUsize,
    open: AtomicUsize,
    requests: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
}

/// A connection to the server.
pub struct ScriptedConnection {
    /// Number of earlier connections.
    pub number: usize,
    stream: TcpStream,
    ahead: Vec<u8>,
    state: Arc<ScriptState>,
}

impl ScriptedServer {
    /// Runs the script on each connection, which is closed when the script ends.
    pub fn new(script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let state: Arc<ScriptState> = Arc::default();
        let accepting = {
            let (state, script) = (Arc::clone(&state), Arc::new(script));
            std::thread::spawn(move || {
                let mut threads = Vec::new();
                for stream in listener.incoming() {
                    let stream = stream.unwrap();
                    if state.is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let number = state.accepted.fetch_add(1, Ordering::SeqCst);
                    state.open.fetch_add(1, Ordering::SeqCst);
                    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
                    stream.set_nodelay(true).unwrap();
                    state.streams.lock().push(stream.try_clone().unwrap());
                    let (state, script) = (Arc::clone(&state), Arc::clone(&script));
                    threads.push(std::thread::spawn(move || {
                        let mut connection = ScriptedConnection { number, stream, ahead: Vec::new(), state };
                        script(&mut connection);
                        // Other handles of the stream exist.
                        drop(connection.stream.shutdown(Shutdown::Both));
                        connection.state.open.fetch_sub(1, Ordering::SeqCst);
                    }));
                }
                threads.into_iter().for_each(|connection| drop(connection.join()));
            })
        };
        Self { at, state, accepting: Some(accepting) }
    }

    /// Number of accepted connections.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Number of connections with a running script.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// The request lines it has read.
    pub fn requests(&self) -> Vec<String> {
        self.state.requests.lock().clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.state.streams.lock().iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        drop(TcpStream::connect(self.at));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl ScriptedConnection {
    /// Reads a request, with its body if that has a length. False if the connection ends first.
    pub fn request(&mut self) -> bool {
        self.request_line().is_some()
    }

    /// The same; returns the request line.
    pub fn request_line(&mut self) -> Option<String> {
        let end = loop {
            match self.ahead.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if !self.more() => return None,
                None => {}
            }
        };
        let head = String::from_utf8_lossy(&self.ahead[..end]).to_ascii_lowercase();
        let first = String::from_utf8_lossy(&self.ahead[..end]).lines().next().unwrap_or_default().to_owned();
        self.state.requests.lock().push(first.clone());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length_total = end + length.unwrap_or(0_usize);
        while self.ahead.len() < length_total {
            if !self.more() {
                return None;
            }
        }
        self.ahead.drain(..length_total);
        Some(first)
    }

    /// Reads until `enough` accepts the received bytes. False if the connection ends first.
    pub fn read_until(&mut self, enough: impl Fn(&[u8]) -> bool) -> bool {
        while !enough(&self.ahead) {
            if !self.more() {
                return false;
            }
        }
        true
    }

    /// Discards the received bytes.
    pub fn forget(&mut self) {
        self.ahead.clear();
    }

    /// Sends bytes; ignores a disconnected client.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()));
    }

    /// Responds with this text and keeps the connection open.
    pub fn respond(&mut self, text: &str) {
        self.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
    }

    /// Responds to every request.
    pub fn respond_all(&mut self, text: &str) {
        while self.request() {
            self.respond(text);
        }
    }

    /// Waits until the peer has closed the connection.
    pub fn wait_for_end(&mut self) {
        while self.more() {}
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.ahead.extend_from_slice(&buffer[..read]);
                read > 0
            }
            Err(_) => false,
        }
    }
}

/// A latch that scripts wait for until the test opens it.
#[derive(Clone, Default)]
pub struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let mut is_open = self.0.0.lock();
        self.0.1.wait_while_for(&mut is_open, |is_open| !*is_open, TEST_TIMEOUT);
    }
}
