//! A server that does on each connection exactly what its script says, right or wrong.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::GUARD;

/// A server that stops when it is dropped.
pub struct Scripted {
    pub at: SocketAddr,
    known: Arc<Known>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Known {
    is_over: AtomicBool,
    accepted: AtomicUsize,
    open: AtomicUsize,
    requests: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
}

/// One connection to it.
pub struct Caller {
    /// How many connections there were before.
    pub number: usize,
    stream: TcpStream,
    ahead: Vec<u8>,
    known: Arc<Known>,
}

impl Scripted {
    /// Plays the script on each connection, which is closed when the script ends.
    pub fn new(script: impl Fn(&mut Caller) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let known: Arc<Known> = Arc::default();
        let accepting = {
            let (known, script) = (Arc::clone(&known), Arc::new(script));
            std::thread::spawn(move || {
                let mut callers = Vec::new();
                for stream in listener.incoming() {
                    let stream = stream.unwrap();
                    if known.is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let number = known.accepted.fetch_add(1, Ordering::SeqCst);
                    known.open.fetch_add(1, Ordering::SeqCst);
                    stream.set_read_timeout(Some(GUARD)).unwrap();
                    stream.set_nodelay(true).unwrap();
                    known.streams.lock().push(stream.try_clone().unwrap());
                    let (known, script) = (Arc::clone(&known), Arc::clone(&script));
                    callers.push(std::thread::spawn(move || {
                        let mut caller = Caller { number, stream, ahead: Vec::new(), known };
                        script(&mut caller);
                        // Other handles to it are kept elsewhere.
                        drop(caller.stream.shutdown(Shutdown::Both));
                        caller.known.open.fetch_sub(1, Ordering::SeqCst);
                    }));
                }
                callers.into_iter().for_each(|caller| drop(caller.join()));
            })
        };
        Self { at, known, accepting: Some(accepting) }
    }

    /// How many connections were made to it.
    pub fn accepted(&self) -> usize {
        self.known.accepted.load(Ordering::SeqCst)
    }

    /// How many connections its script still plays on.
    pub fn open(&self) -> usize {
        self.known.open.load(Ordering::SeqCst)
    }

    /// The first lines of the requests it read.
    pub fn requests(&self) -> Vec<String> {
        self.known.requests.lock().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.known.is_over.store(true, Ordering::SeqCst);
        self.known.streams.lock().iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        drop(TcpStream::connect(self.at));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

impl Caller {
    /// Reads a request with its body, if that has a length. `false` if the connection ends first.
    pub fn request(&mut self) -> bool {
        self.request_line().is_some()
    }

    /// The same, with its first line.
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
        self.known.requests.lock().push(first.clone());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let whole = end + length.unwrap_or(0_usize);
        while self.ahead.len() < whole {
            if !self.more() {
                return None;
            }
        }
        self.ahead.drain(..whole);
        Some(first)
    }

    /// Reads until what has come is enough. `false` if the connection ends first.
    pub fn read_until(&mut self, enough: impl Fn(&[u8]) -> bool) -> bool {
        while !enough(&self.ahead) {
            if !self.more() {
                return false;
            }
        }
        true
    }

    /// Forgets what has come so far.
    pub fn forget(&mut self) {
        self.ahead.clear();
    }

    /// Sends bytes. A client that has gone does not matter.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()));
    }

    /// Answers with this text, and keeps the connection.
    pub fn answer(&mut self, text: &str) {
        self.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
    }

    /// Answers every request.
    pub fn answer_all(&mut self, text: &str) {
        while self.request() {
            self.answer(text);
        }
    }

    /// Waits until the other side has closed the connection.
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

/// What scripts wait at until the test lets them go on.
#[derive(Clone, Default)]
pub struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let mut is_open = self.0.0.lock();
        self.0.1.wait_while_for(&mut is_open, |is_open| !*is_open, GUARD);
    }
}
