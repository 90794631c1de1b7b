//! WebSocket as others speak it: the client and the server are those of Python's `websockets`, which `scripts/clients`
//! installs.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluicegate_engine::clock::ClockHandle;

use super::support::certificate::Folder;
use super::support::{Served, before, until};

const RULES: &str = "rules: [{ name: two, match: /limited, key: client.ip, limits: [{ concurrency: 2 }] }]";

fn script(words: &[&str]) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = tests.join("../../target/tests/clients/bin/python");
    assert!(python.exists(), "{} is not there: run scripts/clients", python.display());
    let mut command = Command::new(python);
    command.arg(tests.join("tests/protocols/websockets_py.py")).args(words).stdin(Stdio::null());
    command
}

/// A server that says back what it is told; it is gone with its owner.
struct Server {
    at: SocketAddr,
    process: Child,
}

impl Server {
    fn start() -> Self {
        let mut process = script(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { at: SocketAddr::from(([127, 0, 0, 1], line.trim().parse().unwrap())), process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn talk(words: &[&str]) {
    let output = script(&[&["talk"], words].concat()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && out == "all was as it should be\n", "{out}\n{err}");
}

fn nothing_is_held(served: &Served) {
    let vitals = served.running().vitals();
    until("all connections are over", || vitals.door().counts().open == 0);
    until("no server is asked", || vitals.upstreams()[0].servers[0].in_flight == 0);
}

#[test]
fn websockets_talks_as_it_would_without_the_gateway() {
    let server = Server::start();
    let served = Served::of(&before(&[server.at], RULES));
    talk(&[&format!("ws://{}", served.at)]);
    nothing_is_held(&served);
}

#[test]
fn websockets_talks_under_tls() {
    let (server, folder) = (Server::start(), Folder::new());
    let yaml = before(&[server.at], RULES).replace("listen: 127.0.0.1:0", Folder::LISTEN);
    let served = Served::within(folder.path(), &yaml, ClockHandle::system());
    talk(&[&format!("wss://{}", served.at), &folder.authority()]);
    nothing_is_held(&served);
}
