//! RESP connections, in memory and over sockets.

mod any_input;
mod bounds;
mod clients;
mod parsing;
mod protocol;
mod rules;
mod store;
mod throttling;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_engine::rule::{Attribute, Rule};
use sluicegate_engine::{Limit, Sluice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Resp, RespLimits};
use crate::Secret;

const IDLE: Duration = Duration::from_secs(300);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_REQUEST: usize = 64 * 1024;
const LIMITS: RespLimits =
    RespLimits { max_request_size: MAX_REQUEST, command_timeout: COMMAND_TIMEOUT, idle_timeout: IDLE };

/// Timeout of a test step, so that a failure does not hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A server and its manual clock.
struct RespServer {
    resp: Arc<Resp>,
    clock: ManualClock,
    closing: watch::Sender<()>,
}

impl RespServer {
    fn new() -> Self {
        Self::with_secret(None)
    }

    fn with_secret(secret: Option<&str>) -> Self {
        let clock = ManualClock::new();
        let mut per_account = Rule::new("per-account", [bucket("2/1m", 2)]);
        per_account.key = vec![Attribute::custom("account").into()];
        let mut per_ip = Rule::new("per-ip", [bucket("10/1s", 10)]);
        per_ip.key = vec![Attribute::ClientIp.into()];
        let rules = Sluice::builder().rule(per_account).rule(per_ip).clock(clock.clone()).build().unwrap();
        Self::with_sluice(rules, secret.map(secret_of), clock)
    }

    fn with_sluice(sluice: Sluice, secret: Option<Secret>, clock: ManualClock) -> Self {
        Self::with_limits(LIMITS, sluice, secret, clock)
    }

    fn with_limits(limits: RespLimits, sluice: Sluice, secret: Option<Secret>, clock: ManualClock) -> Self {
        let adhoc = Arc::new(AdHoc::new(1_000, clock.clone()).unwrap());
        let handle = ClockHandle::new(clock.clone());
        let resp = Arc::new(Resp::new(sluice, adhoc, secret, limits, handle));
        Self { resp, clock, closing: watch::channel(()).0 }
    }

    /// Connects with a pipe of this capacity.
    fn connect_with(&self, buffer_bytes: usize) -> RespClient {
        let (client, server) = duplex(buffer_bytes);
        let (resp, closing) = (Arc::clone(&self.resp), self.closing.subscribe());
        let served = tokio::spawn(async move { resp.serve(server, closing).await });
        RespClient { io: client, served }
    }

    fn connect(&self) -> RespClient {
        self.connect_with(1 << 20)
    }
}

fn bucket(rate: &str, burst: u64) -> Limit {
    Limit::token_bucket(rate.parse().unwrap(), burst).unwrap()
}

fn secret_of(secret: &str) -> Secret {
    use std::sync::atomic::{AtomicU32, Ordering};
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("sluicegate-resp-secret-{}-{number}", std::process::id()));
    std::fs::write(&file, secret).unwrap();
    let read = Secret::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    read
}

/// Runs all tasks that are ready. There is one thread: every ready task runs before this one.
async fn run_until_idle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

struct RespClient {
    io: DuplexStream,
    served: JoinHandle<()>,
}

impl RespClient {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads exactly the expected bytes.
    async fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let mut some = vec![0; expected.len() - got.len()];
            let reading = tokio::time::timeout(TEST_TIMEOUT, self.io.read(&mut some));
            match reading.await {
                Ok(Ok(read @ 1..)) => got.extend_from_slice(&some[..read]),
                other => panic!("{} {other:?}, expected {}", got.escape_ascii(), expected.escape_ascii()),
            }
        }
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    /// Sends an inline command and reads the expected reply.
    async fn line(&mut self, line: &str, expected: impl AsRef<[u8]>) {
        self.send(format!("{line}\r\n")).await;
        self.expect(expected).await;
    }

    /// Reads until the server closes the connection.
    async fn read_to_end(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        tokio::time::timeout(TEST_TIMEOUT, self.io.read_to_end(&mut rest)).await.unwrap().unwrap();
        tokio::time::timeout(TEST_TIMEOUT, self.served).await.unwrap().unwrap();
        rest
    }
}

/// A reply of five integers.
fn five_integers(numbers: [i64; 5]) -> String {
    let numbers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*5\r\n{numbers}")
}

/// A command as an array of bulk strings.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
