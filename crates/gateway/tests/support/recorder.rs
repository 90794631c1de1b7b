//! Strict HTTP/1.1 server that records requests; anything else is recorded as a violation.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// A complete request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct RecorderState {
    seen: Vec<RecordedRequest>,
    violations: Vec<String>,
    cut: usize,
}

/// The server. It responds to each request with its method and target.
pub struct Recorder {
    pub at: SocketAddr,
    state: Arc<Mutex<RecorderState>>,
    stopped: Arc<AtomicBool>,
}

/// Reason that no request could be read.
enum ReadError {
    /// The connection ended between two requests.
    Closed,
    /// The connection ended within a request.
    Cut,
    /// The input is not a valid request.
    Violation(String),
}

impl Recorder {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let notes: Arc<Mutex<RecorderState>> = Arc::default();
        let stopped: Arc<AtomicBool> = Arc::default();
        {
            let (notes, stopped) = (Arc::clone(&notes), Arc::clone(&stopped));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let (stream, notes) = (stream.unwrap(), Arc::clone(&notes));
                    std::thread::spawn(move || converse(stream, &notes));
                }
            });
        }
        Self { at, state: notes, stopped }
    }

    /// All complete requests, in the order in which they ended.
    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.state.lock().seen.clone()
    }

    /// Input that is not a valid request.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }

    /// Number of incomplete requests.
    pub fn cut(&self) -> usize {
        self.state.lock().cut
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.at));
    }
}

fn converse(stream: TcpStream, notes: &Mutex<RecorderState>) {
    let mut writing = stream.try_clone().unwrap();
    let mut reading = BufReader::new(stream);
    loop {
        match request(&mut reading) {
            Ok(seen) => {
                let text = format!("{} {}", seen.method, seen.target);
                let has_body = seen.method != "HEAD";
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                notes.lock().seen.push(seen);
                let response = if has_body { head + &text } else { head };
                if writing.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
            Err(ReadError::Closed) => return,
            Err(ReadError::Cut) => {
                notes.lock().cut += 1;
                return;
            }
            Err(ReadError::Violation(label)) => {
                notes.lock().violations.push(label);
                return;
            }
        }
    }
}

fn request(reading: &mut impl Read) -> Result<RecordedRequest, ReadError> {
    let first = line(reading).map_err(|fault| match fault {
        // Nothing was received yet.
        (ReadError::Cut, 0) => ReadError::Closed,
        (fault, _) => fault,
    })?;
    let [method, target, "HTTP/1.1"] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err(ReadError::Violation(format!("request line {first:?}")));
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let headers = fields(reading)?;
    let all = |name: &str| headers.iter().filter(|(known, _)| known == name).map(|it| it.1.clone()).collect::<Vec<_>>();
    if all("host").len() != 1 {
        return Err(ReadError::Violation(format!("not one host: {headers:?}")));
    }
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => {}
        ([length], []) if length.bytes().all(|it| it.is_ascii_digit()) && !length.is_empty() => {
            body = exactly(reading, length.parse().unwrap())?;
        }
        ([], [coding]) if coding == "chunked" => loop {
            let size = line(reading).map_err(|it| it.0)?;
            if size.is_empty() || !size.bytes().all(|it| it.is_ascii_hexdigit()) {
                return Err(ReadError::Violation(format!("chunk of size {size:?}")));
            }
            match usize::from_str_radix(&size, 16).unwrap() {
                0 => {
                    trailers = fields(reading)?;
                    break;
                }
                size => body.extend(exactly(reading, size)?),
            }
            let after = line(reading).map_err(|it| it.0)?;
            if !after.is_empty() {
                return Err(ReadError::Violation(format!("{after:?} after a chunk")));
            }
        },
        framing => return Err(ReadError::Violation(format!("framed by {framing:?}"))),
    }
    Ok(RecordedRequest { method, target, headers, body, trailers })
}

fn fields(reading: &mut impl Read) -> Result<Vec<(String, String)>, ReadError> {
    let mut fields = Vec::new();
    loop {
        let line = line(reading).map_err(|it| it.0)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let is_token = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
        match line.split_once(':') {
            Some((name, value)) if !name.is_empty() && name.bytes().all(is_token) => {
                fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
            }
            _ => return Err(ReadError::Violation(format!("header {line:?}"))),
        }
    }
}

/// A line without its line end; or the error, and the length of the incomplete line.
fn line(reading: &mut impl Read) -> Result<String, (ReadError, usize)> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        match reading.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => return Err((ReadError::Cut, line.len())),
        }
        if let Some(content) = line.strip_suffix(b"\r\n") {
            if content.iter().any(|it| (*it < b' ' && *it != b'\t') || *it == 0x7f) {
                return Err((ReadError::Violation(format!("control bytes in {line:?}")), line.len()));
            }
            return Ok(String::from_utf8_lossy(content).into_owned());
        }
    }
}

fn exactly(reading: &mut impl Read, length: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; length];
    reading.read_exact(&mut bytes).map_err(|_| ReadError::Cut)?;
    Ok(bytes)
}
