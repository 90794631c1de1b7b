//! `MULTI` and `EXEC`: answered together, and no dearer to others than the same commands one by one.

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use tokio::io::AsyncReadExt;

use super::super::connection::MOST_UNSENT;
use super::conversations::converses;
use super::{BOUNDS, Bounds, Client, PATIENCE, Server, settle};

#[tokio::test]
async fn commands_between_multi_and_exec_are_answered_together() {
    converses(
        &Server::new(),
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
async fn what_is_kept_for_exec_is_bounded() {
    let server = Server::new();
    let mut client = server.connect();
    client.line("MULTI", "+OK\r\n").await;
    for _ in 0..10_000 {
        client.line("PING", "+QUEUED\r\n").await;
    }
    client.line("PING", "-ERR 'ping' is one too many: EXEC those before it first\r\n").await;
    client.line("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n").await;
    client.line("PING", "+PONG\r\n").await;
}

/// A server that takes as much as one does whose settings say nothing of it.
fn roomy() -> Server {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    Server::within(Bounds { max_request: 1 << 20, ..BOUNDS }, sluice, None, clock)
}

/// Takes one of ten thousand that come back in hours; tells how far a transaction got that has this in it.
const STEP: &str = "CL.THROTTLE steps 9999 1 3600\r\n";

impl Client {
    /// How many steps there were so far.
    async fn steps(&mut self) -> usize {
        self.send(STEP.replace("\r\n", " 0\r\n")).await;
        let mut reply = String::new();
        while reply.matches("\r\n").count() < 6 {
            let mut some = [0; 128];
            let read = tokio::time::timeout(PATIENCE, self.io.read(&mut some)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{reply}");
            reply.push_str(str::from_utf8(&some[..read]).unwrap());
        }
        let remaining: usize = reply.lines().nth(3).unwrap()[1..].parse().unwrap();
        10_000 - remaining
    }
}

/// The reply to `COMMAND DOCS`.
async fn documentation(server: &Server) -> String {
    let mut client = server.connect();
    client.send("COMMAND DOCS\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.rest().await).unwrap();
    text.strip_suffix("+OK\r\n").unwrap().to_owned()
}

/// All replies of a transaction were made at once, whether or not anybody took them: a hundred megabytes for a few bytes.
#[tokio::test]
async fn replies_to_exec_that_nobody_reads_are_not_made_without_end() {
    let server = roomy();
    let docs = documentation(&server).await;
    let room = 4 * 1024;
    let (mut greedy, mut other) = (server.connect_with(room), server.connect());
    // Every tenth tells how far it got.
    let commands = (1..10_000).map(|nth| if nth % 10 == 0 { STEP } else { "COMMAND DOCS\r\n" });
    greedy.send(format!("MULTI\r\n{}", commands.collect::<String>())).await;
    settle().await;
    greedy.send("EXEC\r\n").await;
    settle().await;
    let steps = other.steps().await;
    let made = steps * 9 * docs.len();
    assert!((MOST_UNSENT / 2..MOST_UNSENT + 10 * docs.len() + room).contains(&made), "{made} bytes");
    settle().await;
    assert_eq!(other.steps().await, steps, "it waits");
    // Once it reads, it goes on.
    let mut taken = vec![0; MOST_UNSENT];
    greedy.io.read_exact(&mut taken).await.unwrap();
    settle().await;
    assert!(other.steps().await > steps);
}

/// A transaction had its thread for as long as it took, though all its replies found room.
#[tokio::test]
async fn others_are_answered_while_exec_runs() {
    let server = roomy();
    let (mut busy, mut other) = (server.connect(), server.connect());
    busy.send(format!("MULTI\r\n{}", STEP.repeat(9_999))).await;
    settle().await;
    assert_eq!(other.steps().await, 0);
    busy.send("EXEC\r\n").await;
    let steps = other.steps().await;
    assert!((1..5_000).contains(&steps), "{steps} steps before the other was answered");
    settle().await;
    assert_eq!(other.steps().await, 9_999);
}

#[tokio::test]
async fn who_reads_late_gets_the_whole_answer_and_what_follows_it() {
    let server = Server::new();
    let docs = documentation(&server).await;
    let pairs = 2 * MOST_UNSENT / docs.len();
    let commands: String = (0..pairs).map(|nth| format!("COMMAND DOCS\r\nECHO {nth:05}\r\n")).collect();
    let answers: String = (0..pairs).map(|nth| format!("{docs}$5\r\n{nth:05}\r\n")).collect();
    let queued = format!("+OK\r\n{}", "+QUEUED\r\n".repeat(2 * pairs));
    let expected = format!("*{}\r\n{answers}+PONG\r\n+OK\r\n*0\r\n", 2 * pairs);
    for closes in [false, true] {
        let mut client = server.connect_with(64 * 1024);
        client.send(format!("MULTI\r\n{commands}")).await;
        client.expect(&queued).await;
        client.send("EXEC\r\nPING\r\nMULTI\r\nEXEC\r\n").await;
        settle().await;
        if closes {
            server.closing.send(()).unwrap();
            assert!(client.rest().await == expected.as_bytes());
        } else {
            client.expect(&expected).await;
            client.line("PING", "+PONG\r\n").await;
        }
    }
}
