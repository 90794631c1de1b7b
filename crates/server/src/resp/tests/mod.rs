//! Whole conversations, in memory and over sockets.

mod any_input;
mod bounds;
mod clients;
mod conversations;
mod parsing;
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

use super::{Bounds, Resp};
use crate::Secret;

const IDLE: Duration = Duration::from_secs(300);
const WHOLE_COMMAND: Duration = Duration::from_secs(20);
const MAX_REQUEST: usize = 64 * 1024;
const BOUNDS: Bounds = Bounds { max_request: MAX_REQUEST, whole_command: WHOLE_COMMAND, idle: IDLE };

/// How long a test waits for what should come at once, so that it fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and the clock it goes by.
struct Server {
    resp: Arc<Resp>,
    clock: ManualClock,
    closing: watch::Sender<()>,
}

impl Server {
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
        Self::of(rules, secret.map(secret_of), clock)
    }

    fn of(sluice: Sluice, secret: Option<Secret>, clock: ManualClock) -> Self {
        Self::within(BOUNDS, sluice, secret, clock)
    }

    fn within(bounds: Bounds, sluice: Sluice, secret: Option<Secret>, clock: ManualClock) -> Self {
        let adhoc = Arc::new(AdHoc::new(1_000, clock.clone()).unwrap());
        let handle = ClockHandle::new(clock.clone());
        let resp = Arc::new(Resp::new(sluice, adhoc, secret, bounds, handle));
        Self { resp, clock, closing: watch::channel(()).0 }
    }

    /// Connects, with so much room on the way.
    fn connect_with(&self, room: usize) -> Client {
        let (ours, theirs) = duplex(room);
        let (resp, closing) = (Arc::clone(&self.resp), self.closing.subscribe());
        let served = tokio::spawn(async move { resp.serve(theirs, closing).await });
        Client { io: ours, served }
    }

    fn connect(&self) -> Client {
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

/// Lets everything happen that can happen now. There is one thread: whoever can go on does so before we do.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

struct Client {
    io: DuplexStream,
    served: JoinHandle<()>,
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads exactly what is expected.
    async fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let mut some = vec![0; expected.len() - got.len()];
            let reading = tokio::time::timeout(PATIENCE, self.io.read(&mut some));
            match reading.await {
                Ok(Ok(read @ 1..)) => got.extend_from_slice(&some[..read]),
                other => panic!("{} {other:?}, wanted {}", got.escape_ascii(), expected.escape_ascii()),
            }
        }
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    /// Sends a typed line and reads what is expected.
    async fn line(&mut self, line: &str, expected: impl AsRef<[u8]>) {
        self.send(format!("{line}\r\n")).await;
        self.expect(expected).await;
    }

    /// Reads until the server ends the connection.
    async fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, self.io.read_to_end(&mut rest)).await.unwrap().unwrap();
        tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap();
        rest
    }
}

/// Five integers, as a reply.
fn five(numbers: [i64; 5]) -> String {
    let numbers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*5\r\n{numbers}")
}

/// A command as clients send it.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
