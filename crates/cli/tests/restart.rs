//! The real program under load: restarted, told to stop, given bad rules and new certificates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Guards against hanging; nothing is ever measured by it.
const GUARD: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < GUARD, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A program behind the gateway: answers at once, but `/slow` only when it is told.
struct Upstream {
    at: SocketAddr,
    slow: Arc<AtomicUsize>,
    release: Arc<AtomicBool>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Self { at: listener.local_addr().unwrap(), slow: Arc::default(), release: Arc::default() };
        let (slow, release) = (Arc::clone(&upstream.slow), Arc::clone(&upstream.release));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (slow, release) = (Arc::clone(&slow), Arc::clone(&release));
                thread::spawn(move || {
                    let mut talk = Talk::over(stream.unwrap());
                    while let Some(head) = talk.head() {
                        if head.starts_with("GET /slow") {
                            slow.fetch_add(1, Ordering::SeqCst);
                            until("the slow one may go on", || release.load(Ordering::SeqCst));
                        }
                        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                    }
                });
            }
        });
        upstream
    }
}

/// One end of a connection that speaks HTTP/1.
struct Talk {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Talk {
    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(GUARD)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    fn send(&mut self, text: &str) {
        // What cannot be sent is not answered either.
        drop(self.stream.write_all(text.as_bytes()));
    }

    fn read_until(&mut self, enough: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
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

    fn head(&mut self) -> Option<String> {
        let end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        self.read_until(end).map(|head| String::from_utf8(head).unwrap())
    }

    /// Status, and whether the connection goes on.
    fn answer(&mut self) -> Option<(u16, bool)> {
        let head = self.head()?.to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length: usize =
            head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
        self.read_until(|bytes| (bytes.len() >= length).then_some(length))?;
        Some((status, !head.contains("connection: close")))
    }
}

fn get(at: SocketAddr, path: &str) -> Option<u16> {
    let mut talk = Talk::over(TcpStream::connect(at).ok()?);
    talk.send(&format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n"));
    talk.answer().map(|(status, _)| status)
}

/// The program, and those that took its place.
struct Program {
    at: SocketAddr,
    folder: PathBuf,
    first: Child,
    /// The one that serves now.
    now: u32,
}

impl Program {
    /// Starts it with this rule file, in which `LISTEN` stands for its address.
    fn start(name: &str, rules: &str, prepare: impl Fn(&Path)) -> Self {
        let folder = std::env::temp_dir().join(format!("sluicegate-run-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        prepare(&folder);
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        fs::write(folder.join("rules.yaml"), rules.replace("LISTEN", &at.to_string())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.arg("run").arg(folder.join("rules.yaml")).stdin(Stdio::null()).stdout(Stdio::null());
        let first = command.stderr(File::create(folder.join("log")).unwrap()).spawn().unwrap();
        let now = first.id();
        let mut program = Self { at, folder, first, now };
        until("it listens", || {
            assert!(program.first.try_wait().unwrap().is_none(), "it ended: {}", program.log());
            program.log().contains("listening at")
        });
        program
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    fn signal(&self, name: &str) {
        signal(self.now, name);
    }

    /// Restarts it, and waits until the old process has ended.
    fn restart(&mut self) {
        let told = self.log().matches("has taken over").count();
        let old = self.now;
        self.signal("USR2");
        until("another takes over", || self.log().matches("has taken over").count() == told + 1);
        let log = self.log();
        let line = log.lines().rfind(|line| line.contains("has taken over")).unwrap();
        self.now = line.split_once("process ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert_ne!(self.now, old);
        if old == self.first.id() {
            assert!(ended(&mut self.first).success());
        } else {
            until("the old process ends", || is_gone(old));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.first.kill());
        drop(self.first.wait());
        if self.now != self.first.id() && !is_gone(self.now) {
            signal(self.now, "KILL");
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success());
}

/// Whether a process has ended; the system may still remember it.
fn is_gone(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

fn ended(process: &mut Child) -> ExitStatus {
    let mut status = None;
    until("it ends", || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

fn rules(upstream: &Upstream, more: &str) -> String {
    format!(
        "gateway:\n  listen: LISTEN\n  threads: 2\n  upstreams: {{ shop: \"http://{}\" }}\n  \
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n{more}\n",
        upstream.at
    )
}

/// Clients that ask without a pause until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Some keep their connection as long as they are let, some make one for each request.
    fn on(at: SocketAddr) -> Self {
        Self::asking(at, |client| format!("GET /{client} HTTP/1.1\r\nHost: shop"))
    }

    /// The same with these heads, each as its client has it.
    fn asking(at: SocketAddr, head: fn(usize) -> String) -> Self {
        let (stop, done): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let client = |number: usize| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut failed = Vec::new();
                let mut kept: Option<Talk> = None;
                while !stop.load(Ordering::SeqCst) {
                    let mut talk = match kept.take() {
                        Some(talk) => talk,
                        None => match TcpStream::connect(at) {
                            Ok(stream) => Talk::over(stream),
                            Err(error) => {
                                failed.push(format!("client {number}: not connected: {error}"));
                                continue;
                            }
                        },
                    };
                    let keep = number.is_multiple_of(2);
                    let close = if keep { "" } else { "Connection: close\r\n" };
                    talk.send(&format!("{}\r\n{close}\r\n", head(number)));
                    match talk.answer() {
                        Some((200, goes_on)) => kept = (keep && goes_on).then_some(talk),
                        other => failed.push(format!("client {number}: {other:?}")),
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    // As many as a busy machine can bear beside the other tests.
                    thread::sleep(Duration::from_millis(1));
                }
                failed
            })
        };
        let clients = (0..6).map(client).collect();
        Self { stop, done, clients }
    }

    /// Waits for so many more requests.
    fn go_on(&self, requests: usize) {
        let before = self.done.load(Ordering::SeqCst);
        until("requests go on", || self.done.load(Ordering::SeqCst) >= before + requests);
    }

    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.done.load(Ordering::SeqCst), failed)
    }
}

#[test]
fn no_request_is_lost_by_restarts_under_load() {
    let upstream = Upstream::start();
    let more = "rules: [{ name: limited, match: /limited, limits: [3/1h] }]";
    let mut program = Program::start("restarts", &rules(&upstream, more), |_| {});
    let load = Load::on(program.at);
    load.go_on(100);
    for round in 0..4 {
        program.restart();
        load.go_on(100);
        // The new process serves at the same port, by the same rules, and remembers what was taken from them.
        let statuses: Vec<_> = (0..4).map(|_| get(program.at, "/limited").unwrap()).collect();
        assert_eq!(statuses, if round == 0 { [200, 200, 200, 429] } else { [429; 4] });
    }
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
}

/// The admin listener is handed over as the others are: whoever carries the pager sees all of a restart.
#[test]
fn the_admin_api_answers_throughout_restarts() {
    let upstream = Upstream::start();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let more = format!("admin: {{ listen: \"{admin}\" }}");
    let mut program = Program::start("admin", &rules(&upstream, &more), |_| {});
    until("the dashboard is there", || program.log().contains("dashboard at "));
    let load = Load::asking(admin, |_| "GET /v1/status HTTP/1.1\r\nHost: localhost".to_owned());
    for _ in 0..4 {
        let mut listener = Talk::over(TcpStream::connect(admin).unwrap());
        listener.send("GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(listener.head().unwrap().starts_with("HTTP/1.1 200 "));
        let event = |bytes: &[u8]| bytes.windows(2).position(|end| end == b"\n\n");
        assert!(String::from_utf8(listener.read_until(event).unwrap()).unwrap().contains("event: tick"));
        load.go_on(100);
        program.restart();
        // Who listened is told that there is no more to come, and is welcome again.
        let end = |bytes: &[u8]| bytes.ends_with(b"\r\n0\r\n\r\n").then_some(bytes.len());
        assert!(listener.read_until(end).is_some(), "cut off");
    }
    load.go_on(100);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    until("it ends", || is_gone(program.now));
}

#[test]
fn bad_rules_do_not_end_what_serves() {
    let upstream = Upstream::start();
    let mut program = Program::start("bad", &rules(&upstream, ""), |_| {});
    let load = Load::on(program.at);
    let good = fs::read_to_string(program.folder.join("rules.yaml")).unwrap();
    for bad in
        ["rules: [{ nam: x }]\n", "gateway: { listen: LISTEN, routes: [{ path: /, upstream: nobody }] }\n", "rules: ["]
    {
        let told = program.log().matches("the old one goes on").count();
        fs::write(program.folder.join("rules.yaml"), bad.replace("LISTEN", &program.at.to_string())).unwrap();
        program.signal("USR2");
        until("it is told why", || program.log().matches("the old one goes on").count() == told + 1);
        load.go_on(50);
        assert!(program.first.try_wait().unwrap().is_none());
    }
    let log = program.log();
    assert!(log.contains("nam") && log.contains("nobody"), "{log}");
    // Mended, it works.
    fs::write(program.folder.join("rules.yaml"), good).unwrap();
    program.restart();
    load.go_on(50);
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
}

#[test]
fn told_to_stop_it_answers_what_is_under_way() {
    let upstream = Upstream::start();
    let mut program = Program::start("stop", &rules(&upstream, ""), |_| {});
    let mut slow: Vec<Talk> = (0..5).map(|_| Talk::over(TcpStream::connect(program.at).unwrap())).collect();
    slow.iter_mut().for_each(|talk| talk.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n"));
    until("all are under way", || upstream.slow.load(Ordering::SeqCst) == 5);
    program.signal("TERM");
    until("it has heard", || program.log().contains("told to stop"));
    until("nobody new is let in", || get(program.at, "/").is_none_or(|status| status == 503));
    upstream.release.store(true, Ordering::SeqCst);
    for talk in &mut slow {
        assert_eq!(talk.answer(), Some((200, false)));
    }
    assert_eq!(ended(&mut program.first).code(), Some(0));
    assert!(!program.log().contains("cut off"), "{}", program.log());
}

#[test]
fn what_is_under_way_at_a_restart_is_answered_by_the_old_process() {
    let upstream = Upstream::start();
    let mut program = Program::start("handed", &rules(&upstream, ""), |_| {});
    let mut slow = Talk::over(TcpStream::connect(program.at).unwrap());
    slow.send("GET /slow HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("it is under way", || upstream.slow.load(Ordering::SeqCst) == 1);
    program.signal("USR2");
    until("another takes over", || program.log().contains("has taken over"));
    assert_eq!(get(program.at, "/"), Some(200));
    assert!(program.first.try_wait().unwrap().is_none(), "the old one is still at it");
    upstream.release.store(true, Ordering::SeqCst);
    assert_eq!(slow.answer(), Some((200, false)));
    assert!(ended(&mut program.first).success());
    let log = program.log();
    let line = log.lines().find(|line| line.contains("has taken over")).unwrap();
    program.now = line.split_once("process ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(get(program.at, "/"), Some(200));
}

/// Makes a certificate for this name, and puts it in place key first, as those who renew them do.
fn certify(folder: &Path, name: &str) {
    let (key, certificate) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.pem")));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost"]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::rename(key, folder.join("key.pem")).unwrap();
    fs::rename(certificate, folder.join("cert.pem")).unwrap();
}

/// For whom the certificate is that clients see.
fn certified(at: SocketAddr) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &at.to_string(), "-servername", "localhost"]).stdin(Stdio::null());
    let said = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    let subject = said.lines().find(|line| line.starts_with("subject=")).unwrap_or_default();
    subject.rsplit('=').next().unwrap_or_default().trim().to_owned()
}

#[test]
fn certificates_are_read_again_when_told_and_when_they_change() {
    let upstream = Upstream::start();
    let tls = rules(&upstream, "")
        .replace("listen: LISTEN", "listen: { address: LISTEN, tls: { certificate: cert.pem, key: key.pem } }");
    let program = Program::start("tls", &tls, |folder| certify(folder, "one"));
    assert_eq!(certified(program.at), "one");
    // A bad one changes nothing.
    let good = fs::read(program.folder.join("cert.pem")).unwrap();
    fs::write(program.folder.join("cert.pem"), "no certificate").unwrap();
    program.signal("HUP");
    until("it is told", || program.log().contains("a certificate stays as it was"));
    assert_eq!(certified(program.at), "one");
    fs::write(program.folder.join("cert.pem"), good).unwrap();
    certify(&program.folder, "two");
    program.signal("HUP");
    until("it is read when told", || certified(program.at) == "two");
    certify(&program.folder, "three");
    until("it is read when it changes", || certified(program.at) == "three");
    assert!(program.log().contains("the certificate was renewed"), "{}", program.log());
    program.signal("TERM");
}
