//! `MULTI` and `EXEC`: replies are sent together, and other clients are not affected more than without a transaction.

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use tokio::io::AsyncReadExt;

use super::super::connection::MAX_UNSENT_BYTES;
use super::protocol::assert_replies;
use super::{LIMITS, RespClient, RespLimits, RespServer, TEST_TIMEOUT, run_until_idle};

#[tokio::test]
async fn exec_replies_to_queued_commands_together() {
    assert_replies(
        &RespServer::new(),
        &[
            ("EXEC", "-ERR EXEC without MULTI\r\n"),
            ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
            ("MULTI", "+OK\r\n"),
            ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
            ("CL.THROTTLE k 1 1 60", "+QUEUED\r\n"),
            ("CL.THROTTLE k 1 1 60", "+QUEUED\r\n"),
            ("CL.THROTTLE k 1 1 60 0", "+QUEUED\r\n"),
            ("ECHO \"a b\"", "+QUEUED\r\n"),
            ("SELECT 1", "+QUEUED\r\n"),
            (
                "EXEC",
                "*5\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120\r\n\
                 *5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120\r\n$3\r\na b\r\n-ERR DB index is out of range\r\n",
            ),
            ("MULTI", "+OK\r\n"),
            ("EXEC", "*0\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PING", "+QUEUED\r\n"),
            ("DISCARD", "+OK\r\n"),
            ("PING", "+PONG\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PING", "+QUEUED\r\n"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("PING", "+QUEUED\r\n"),
            ("MULTI a", "-ERR wrong number of arguments for 'multi' command\r\n"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"),
            ("MULTI", "+OK\r\n"),
            ("RESET", "+RESET\r\n"),
            ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ],
    )
    .await;
}

#[tokio::test]
async fn queued_commands_are_bounded() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.line("MULTI", "+OK\r\n").await;
    for _ in 0..10_000 {
        client.line("PING", "+QUEUED\r\n").await;
    }
    client.line("PING", "-ERR transaction too large: 'ping' is not queued and EXEC will fail\r\n").await;
    client.line("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n").await;
    client.line("PING", "+PONG\r\n").await;
}

/// A server with the default limits.
fn default_limits_server() -> RespServer {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    RespServer::with_limits(RespLimits { max_request_size: 1 << 20, ..LIMITS }, sluice, None, clock)
}

/// Takes one of ten thousand tokens that refill in hours; measures the progress of a transaction.
const STEP: &str = "CL.THROTTLE steps 9999 1 3600\r\n";

impl RespClient {
    /// Number of steps so far.
    async fn steps(&mut self) -> usize {
        self.send(STEP.replace("\r\n", " 0\r\n")).await;
        let mut reply = String::new();
        while reply.matches("\r\n").count() < 6 {
            let mut some = [0; 128];
            let read = tokio::time::timeout(TEST_TIMEOUT, self.io.read(&mut some)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{reply}");
            reply.push_str(str::from_utf8(&some[..read]).unwrap());
        }
        let remaining: usize = reply.lines().nth(3).unwrap()[1..].parse().unwrap();
        10_000 - remaining
    }
}

/// The reply to `COMMAND DOCS`.
async fn documentation(server: &RespServer) -> String {
    let mut client = server.connect();
    client.send("COMMAND DOCS\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.read_to_end().await).unwrap();
    text.strip_suffix("+OK\r\n").unwrap().to_owned()
}

/// Regression test: all replies of a transaction were produced at once, unread: a hundred megabytes for a few
/// bytes.
#[tokio::test]
async fn unread_exec_replies_are_bounded() {
    let server = default_limits_server();
    let docs = documentation(&server).await;
    let room = 4 * 1024;
    let (mut greedy, mut other) = (server.connect_with(room), server.connect());
    // Every tenth command measures the progress.
    let commands = (1..10_000).map(|index| if index % 10 == 0 { STEP } else { "COMMAND DOCS\r\n" });
    greedy.send(format!("MULTI\r\n{}", commands.collect::<String>())).await;
    run_until_idle().await;
    greedy.send("EXEC\r\n").await;
    run_until_idle().await;
    let steps = other.steps().await;
    let made = steps * 9 * docs.len();
    assert!((MAX_UNSENT_BYTES / 2..MAX_UNSENT_BYTES + 10 * docs.len() + room).contains(&made), "{made} bytes");
    run_until_idle().await;
    assert_eq!(other.steps().await, steps, "the transaction waits");
    // Once the client reads, the transaction continues.
    let mut taken = vec![0; MAX_UNSENT_BYTES];
    greedy.io.read_exact(&mut taken).await.unwrap();
    run_until_idle().await;
    assert!(other.steps().await > steps);
}

/// Regression test: a transaction occupied its thread until its end if all replies had room.
#[tokio::test]
async fn exec_yields_to_other_connections() {
    let server = default_limits_server();
    let (mut busy, mut other) = (server.connect(), server.connect());
    busy.send(format!("MULTI\r\n{}", STEP.repeat(9_999))).await;
    run_until_idle().await;
    assert_eq!(other.steps().await, 0);
    busy.send("EXEC\r\n").await;
    let steps = other.steps().await;
    assert!((1..5_000).contains(&steps), "{steps} steps before the other client got a reply");
    run_until_idle().await;
    assert_eq!(other.steps().await, 9_999);
}

#[tokio::test]
async fn a_slow_reader_gets_all_exec_replies() {
    let server = RespServer::new();
    let docs = documentation(&server).await;
    let pairs = 2 * MAX_UNSENT_BYTES / docs.len();
    let commands: String = (0..pairs).map(|index| format!("COMMAND DOCS\r\nECHO {index:05}\r\n")).collect();
    let replies: String = (0..pairs).map(|index| format!("{docs}$5\r\n{index:05}\r\n")).collect();
    let queued = format!("+OK\r\n{}", "+QUEUED\r\n".repeat(2 * pairs));
    let expected = format!("*{}\r\n{replies}+PONG\r\n+OK\r\n*0\r\n", 2 * pairs);
    for closes in [false, true] {
        let mut client = server.connect_with(64 * 1024);
        client.send(format!("MULTI\r\n{commands}")).await;
        client.expect(&queued).await;
        client.send("EXEC\r\nPING\r\nMULTI\r\nEXEC\r\n").await;
        run_until_idle().await;
        if closes {
            server.closing.send(()).unwrap();
            assert!(client.read_to_end().await == expected.as_bytes());
        } else {
            client.expect(&expected).await;
            client.line("PING", "+PONG\r\n").await;
        }
    }
}
