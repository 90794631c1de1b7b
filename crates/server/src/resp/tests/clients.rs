//! Real clients over real sockets: redis-cli, redis-benchmark and redis-rs.

use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::rule::{Attribute, Rule};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::super::Resp;
use super::{LIMITS, bucket, secret_of};

/// A server on its own port and thread. Stops when dropped.
struct TcpServer {
    port: u16,
    closing: Option<watch::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl TcpServer {
    fn new(secret: Option<&str>) -> Self {
        let clock = ClockHandle::system();
        let mut rule = Rule::new("per-account", [bucket("2/1h", 2)]);
        rule.key = vec![Attribute::custom("account").into()];
        let sluice = Sluice::builder().rule(rule).build().unwrap();
        let adhoc = Arc::new(AdHoc::new(10_000, clock.clone()).unwrap());
        let resp = Resp::new(sluice, adhoc, secret.map(secret_of), LIMITS, clock);
        let (closing, mut closed) = watch::channel(());
        let (port_sender, port_receiver) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
                port_sender.send(listener.local_addr().unwrap().port()).unwrap();
                let resp = Arc::new(resp);
                loop {
                    let stream = tokio::select! {
                        accepted = listener.accept() => accepted.unwrap().0,
                        _ = closed.changed() => break,
                    };
                    stream.set_nodelay(true).unwrap();
                    let (resp, closing) = (Arc::clone(&resp), closed.clone());
                    tokio::spawn(async move { resp.serve(stream, closing).await });
                }
            });
        });
        Self { port: port_receiver.recv().unwrap(), closing: Some(closing), thread: Some(thread) }
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        let port = self.port.to_string();
        let mut command = Command::new("timeout");
        command.args(["60", program, "-h", "127.0.0.1", "-p", &port]).args(words);
        command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    fn cli(&self, words: &[&str]) -> String {
        String::from_utf8(self.run("redis-cli", words).stdout).unwrap().trim().to_owned()
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.closing = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn redis_cli() {
    let server = TcpServer::new(None);
    assert_eq!(server.cli(&["PING"]), "PONG");
    assert_eq!(server.cli(&["CL.THROTTLE", "user123", "15", "30", "60"]), "0\n16\n15\n-1\n2");
    assert_eq!(server.cli(&["-3", "CL.THROTTLE", "user123", "15", "30", "60"]), "0\n16\n14\n-1\n4");
    assert_eq!(server.cli(&["THROTTLE", "other", "10", "100", "60"]), "1\n10\n9\n5\n0");
    assert_eq!(server.cli(&["SLUICE.CHECK", "per-account", "account", "a"]), "1\n2\n1\n-1\n1800000\n0\nper-account\n0");
    assert!(server.cli(&["INFO"]).contains("redis_version:"));
    assert!(server.cli(&["-3", "COMMAND", "DOCS", "cl.throttle"]).contains("redis-cell"));
    assert!(server.cli(&["NOPE"]).starts_with("ERR unknown command 'NOPE'"));
    assert_eq!(server.cli(&["-c", "CL.THROTTLE", "k", "0", "1", "1", "0"]), "0\n1\n1\n-1\n0");
}

#[test]
fn redis_cli_with_a_password() {
    let server = TcpServer::new(Some("correct horse"));
    assert_eq!(server.cli(&["PING"]), "NOAUTH Authentication required.");
    assert_eq!(server.cli(&["-a", "correct horse", "--no-auth-warning", "PING"]), "PONG");
    let user = ["--user", "default", "--pass", "correct horse", "--no-auth-warning", "-3", "PING"];
    assert_eq!(server.cli(&user), "PONG");
    assert!(server.cli(&["-a", "wrong", "--no-auth-warning", "PING"]).ends_with("NOAUTH Authentication required."));
}

#[test]
fn redis_benchmark() {
    let server = TcpServer::new(None);
    for pipeline in ["1", "16"] {
        let throttle = ["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"];
        let words = ["-c", "20", "-n", "20000", "-r", "1000", "-P", pipeline, "--csv"];
        let output = server.run("redis-benchmark", &[words.as_slice(), &throttle].concat());
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{report}");
        let rate = report.lines().last().unwrap().split(',').nth(1).unwrap().trim_matches('"').parse::<f64>();
        assert!(rate.is_ok_and(|rate| rate > 0.0), "{report}");
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert!(warnings.is_empty(), "{warnings}");
    }
    // The commands were counted.
    let total = server.cli(&["INFO", "stats"]);
    assert!(total.contains("adhoc_bytes:") && !total.contains("adhoc_bytes:0\r\n"), "{total}");
}

#[test]
fn redis_rs() {
    let server = TcpServer::new(Some("correct horse"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://:correct%20horse@127.0.0.1:{}/0?protocol={protocol}", server.port);
        runtime.block_on(async {
            let client = redis::Client::open(url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let throttle = |key: &str| redis::cmd("CL.THROTTLE").arg(key).arg(1).arg(1).arg(60).to_owned();
            let key = format!("k-{protocol}");
            let reply: Vec<i64> = throttle(&key).query_async(&mut connection).await.unwrap();
            assert_eq!(reply, [0, 2, 1, -1, 60]);
            let mut pipe = redis::pipe();
            for _ in 0..3 {
                pipe.add_command(throttle(&key));
            }
            let replies: Vec<Vec<i64>> = pipe.query_async(&mut connection).await.unwrap();
            assert_eq!(replies.iter().map(|reply| reply[0]).collect::<Vec<_>>(), [0, 1, 1]);
            let error = redis::cmd("CL.THROTTLE").arg("k").query_async::<Vec<i64>>(&mut connection).await.unwrap_err();
            assert!(error.to_string().contains("Usage: cl.throttle"), "{error}");
        });
    }
}
