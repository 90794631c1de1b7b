//! WebSocket with a third-party implementation: client and server of Python's `websockets`, installed by
//! `scripts/install-clients`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluicegate_engine::clock::ClockHandle;

use super::support::certificate::CertificateDir;
use super::support::{TestGateway, proxy_yaml, wait_until};

const RULES: &str = "rules: [{ name: two, match: /limited, key: client.ip, limits: [{ concurrency: 2 }] }]";

fn script(words: &[&str]) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python: PathBuf = tests.join("../../target/tests/clients/bin/python");
    assert!(python.exists(), "{} is missing: run scripts/install-clients", python.display());
    let mut command = Command::new(python);
    command.arg(tests.join("tests/protocols/websockets_py.py")).args(words).stdin(Stdio::null());
    command
}

/// An echo server that stops on drop.
struct PythonServer {
    at: SocketAddr,
    process: Child,
}

impl PythonServer {
    fn start() -> Self {
        let mut process = script(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { at: SocketAddr::from(([127, 0, 0, 1], line.trim().parse().unwrap())), process }
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn check(words: &[&str]) {
    let output = script(&[&["check"], words].concat()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && out == "ok\n", "{out}\n{err}");
}

fn assert_permits_released(gateway: &TestGateway) {
    let stats = gateway.running().stats();
    wait_until("all connections are closed", || stats.listener().counts().open == 0);
    wait_until("no request is at a server", || stats.upstreams()[0].servers[0].in_flight == 0);
}

#[test]
fn python_websockets_work_through_the_gateway() {
    let server = PythonServer::start();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], RULES));
    check(&[&format!("ws://{}", gateway.at)]);
    assert_permits_released(&gateway);
}

#[test]
fn python_websockets_work_over_tls() {
    let (server, folder) = (PythonServer::start(), CertificateDir::new());
    let yaml = proxy_yaml(&[server.at], RULES).replace("listen: 127.0.0.1:0", CertificateDir::LISTEN);
    let gateway = TestGateway::in_dir(folder.path(), &yaml, ClockHandle::system());
    check(&[&format!("wss://{}", gateway.at), &folder.authority()]);
    assert_permits_released(&gateway);
}
