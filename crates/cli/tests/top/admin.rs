//! Fake admin API server. Its clock runs twenty times too fast, so that tests do not wait for seconds.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A key that would clear the screen and change its colour.
pub(crate) const EVIL: &str = "\u{1b}[2J\u{1b}[31mevil\r\n";

/// The server; stops on drop.
pub(crate) struct FakeAdmin {
    pub(crate) address: SocketAddr,
    shared: Arc<FakeAdminState>,
}

struct FakeAdminState {
    token: Option<&'static str>,
    access: &'static str,
    /// Received requests: method and target.
    requests: Mutex<Vec<String>>,
    streams: AtomicUsize,
    /// If set, tick streams are closed and refused.
    is_cut: AtomicBool,
    second: AtomicU64,
    has_ended: AtomicBool,
}

impl FakeAdmin {
    pub(crate) fn start() -> Self {
        Self::start_with(None, "write")
    }

    pub(crate) fn start_with(token: Option<&'static str>, access: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(FakeAdminState {
            token,
            access,
            requests: Mutex::default(),
            streams: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            second: AtomicU64::new(1),
            has_ended: AtomicBool::new(false),
        });
        let admin = Self { address: listener.local_addr().unwrap(), shared: shared.clone() };
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let (shared, Ok(stream)) = (shared.clone(), stream) else { continue };
                // The client may disconnect.
                thread::spawn(move || drop(shared.serve(&stream)));
            }
        });
        admin
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Number of tick streams opened so far.
    pub(crate) fn streams(&self) -> usize {
        self.shared.streams.load(Ordering::SeqCst)
    }

    /// Closes and refuses tick streams, or accepts them again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.shared.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

impl Drop for FakeAdmin {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        // Wakes the accept loop.
        drop(TcpStream::connect(self.address));
    }
}

impl FakeAdminState {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let (mut reader, mut writer) = (BufReader::new(stream), stream);
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let target = lines[0].rsplit_once(' ').unwrap().0.to_owned();
            self.requests.lock().unwrap().push(target.clone());
            let given = lines.iter().find_map(|line| line.strip_prefix("authorization: Bearer "));
            if self.token.is_some() && given != self.token {
                write_response(&mut writer, "401 Unauthorized", &json!({"title": "no"}))?;
                continue;
            }
            let json = match target.as_str() {
                "GET /v1/live" => return self.stream(&mut writer),
                "GET /v1/status" => self.status(),
                "GET /v1/bans" => json!({"bans": [
                    {"rule": "per-ip", "key": EVIL, "remaining_s": 3_725.5},
                    {"rule": "per-ip", "key": "203.0.113.9", "remaining_s": 12.0}]}),
                "GET /v1/store" => json!({"url": "redis://10.0.0.1:6379", "state": "up", "nodes": 2, "decisions": 7}),
                target if target.starts_with("GET /v1/top?") => json!({"rules": [{"rule": "per-ip", "over_s": 83.2,
                    "checked": {"total": 9, "error": 0, "keys": [{"key": EVIL, "count": 512}]},
                    "refused": {"total": 0, "error": 0, "keys": []}}]}),
                target if target.starts_with("DELETE /v1/bans?") => json!({"removed": true}),
                _ => {
                    write_response(&mut writer, "404 Not Found", &json!({"detail": "no such route"}))?;
                    continue;
                }
            };
            write_response(&mut writer, "200 OK", &json)?;
        }
    }

    fn status(&self) -> Value {
        json!({"version": "0.1.0", "started_at": "2026-11-17T00:00:00Z", "uptime_s": 250.5, "access": self.access,
            "rules": {"count": 2, "generation": 3, "origin": "file", "path": "rules.yaml", "version": 3, "last_error": null,
                      "pending_restart": []}, "bans": 2, "store": null})
    }

    fn stream(&self, writer: &mut impl Write) -> io::Result<()> {
        if self.is_cut.load(Ordering::SeqCst) {
            return write_response(writer, "503 Service Unavailable", &json!({"detail": "stopping"}));
        }
        self.streams.fetch_add(1, Ordering::SeqCst);
        writer
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        chunk(writer, ": hello\n\n")?;
        while !self.is_cut.load(Ordering::SeqCst) && !self.has_ended.load(Ordering::SeqCst) {
            let second = self.second.fetch_add(1, Ordering::SeqCst);
            let tick = json!({"at": "2026-11-17T00:00:00Z", "at_ms": 1_000 * second, "bans": 2, "generation": 3, "store": "up",
                "nodes": 2, "last_error": null, "lists": {"allow": 0, "deny": 0}, "gateway": null,
                "adaptive": [{"name": "total", "state": "steady", "ceiling": "18 in flight", "readings": {"in_flight": 3.0},
                              "reason": "concurrency limit 18, average 12ms, unloaded 10ms"}],
                "rules": [
                    {"name": "per-ip", "admitted": 40 * second, "refused": 5 * second, "banned": 0, "degraded": 0,
                     "waited": 0, "bytes": 0, "waiting": 0, "permits": null, "used": null},
                    {"name": "total", "admitted": 100 * second, "refused": 0, "waiting": 3, "used": 0.42}]});
            chunk(writer, &format!("event: tick\ndata: {tick}\n\n"))?;
            thread::sleep(Duration::from_millis(50));
        }
        chunk(writer, "")
    }
}

fn write_response(writer: &mut impl Write, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    writer.write_all((head + &body).as_bytes())
}

fn chunk(writer: &mut impl Write, text: &str) -> io::Result<()> {
    writer.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    writer.flush()
}
