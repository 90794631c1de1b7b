//! A client affects only itself: unread replies, idle time, and shutdown.

use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use tokio::io::AsyncWriteExt;

use super::super::connection::{MAX_UNSENT_BYTES, WRITE_TIMEOUT};
use super::{COMMAND_TIMEOUT, IDLE, LIMITS, MAX_REQUEST, RespClient, RespLimits, RespServer, command, run_until_idle};

impl RespClient {
    /// Sends the bytes until the socket blocks; returns the number of bytes accepted.
    async fn send_until_blocked(&mut self, bytes: &[u8], times: usize) -> usize {
        let mut taken = 0;
        for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                let write = self.io.write(rest);
                tokio::pin!(write);
                let written = tokio::select! {
                    biased;
                    written = &mut write => written.unwrap_or(0),
                    () = run_until_idle() => return taken,
                };
                if written == 0 {
                    return taken;
                }
                taken += written;
                rest = &rest[written..];
            }
        }
        taken
    }
}

#[tokio::test]
async fn unread_replies_block_only_their_own_connection() {
    let server = RespServer::new();
    let mut greedy = server.connect_with(4 * 1024);
    let ping = command(&[b"PING"]).repeat(100);
    let taken = greedy.send_until_blocked(&ping, 10_000).await;
    // Reading stopped near one mebibyte of unsent replies, which are half as long as their commands.
    assert!((MAX_UNSENT_BYTES..3 * MAX_UNSENT_BYTES).contains(&taken), "{taken}");
    // Other connections are served as usual.
    let mut other = server.connect();
    other.line("PING", "+PONG\r\n").await;
    // Once the client reads, it gets every reply, and reading resumes.
    let mut read = 0;
    let mut sink = vec![0; 64 * 1024];
    let commands = taken / 14;
    while read < commands * 7 {
        read += tokio::io::AsyncReadExt::read(&mut greedy.io, &mut sink).await.unwrap();
    }
    assert!(greedy.send_until_blocked(&ping, 10).await > 0);
    drop(greedy);
}

#[tokio::test]
async fn a_client_that_reads_no_replies_is_disconnected() {
    let server = RespServer::new();
    let mut greedy = server.connect_with(1024);
    greedy.send_until_blocked(&command(&[b"PING"]).repeat(1_000), 1_000).await;
    server.clock.advance(WRITE_TIMEOUT - Duration::from_nanos(1));
    run_until_idle().await;
    assert!(!greedy.served.is_finished());
    server.clock.advance(Duration::from_nanos(1));
    run_until_idle().await;
    // The connection closes; the shutdown has a timeout as well.
    server.clock.advance(WRITE_TIMEOUT);
    run_until_idle().await;
    assert!(greedy.served.is_finished());
}

#[tokio::test]
async fn only_idle_clients_are_disconnected() {
    let server = RespServer::new();
    let mut client = server.connect();
    for _ in 0..5 {
        client.line("PING", "+PONG\r\n").await;
        run_until_idle().await;
        server.clock.advance(IDLE - Duration::from_nanos(1));
        run_until_idle().await;
        assert!(!client.served.is_finished());
    }
    assert_eq!(server.clock.pending_timers(), 1, "one timer per connection");
    server.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.read_to_end().await, b"");
    assert_eq!(server.clock.pending_timers(), 0);
}

/// Regression test: each byte counted as activity, and a partial command could last as long as the idle timeout.
#[tokio::test]
async fn a_trickled_command_does_not_extend_its_timeout() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    run_until_idle().await;
    server.clock.advance(COMMAND_TIMEOUT);
    client.send("*2\r\n$4\r\nECHO\r\n$100\r\n").await;
    for _ in 0..19 {
        run_until_idle().await;
        server.clock.advance(COMMAND_TIMEOUT / 20);
        client.send("x").await;
    }
    run_until_idle().await;
    assert_eq!(server.clock.pending_timers(), 1, "one timer per connection");
    server.clock.advance(COMMAND_TIMEOUT / 20 - Duration::from_nanos(1));
    run_until_idle().await;
    assert!(!client.served.is_finished());
    server.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.read_to_end().await, b"");
    assert_eq!(server.clock.pending_timers(), 0);
}

#[tokio::test]
async fn each_command_gets_the_full_timeout() {
    let server = RespServer::new();
    let mut client = server.connect();
    let almost = COMMAND_TIMEOUT - Duration::from_nanos(1);
    client.send("PI").await;
    for _ in 0..5 {
        run_until_idle().await;
        server.clock.advance(almost);
        run_until_idle().await;
        // The end of one command with the start of the next.
        client.send("NG\r\nPI").await;
        client.expect("+PONG\r\n").await;
    }
    client.line("NG", "+PONG\r\n").await;
    run_until_idle().await;
    // Between two commands the idle timeout applies.
    server.clock.advance(IDLE - Duration::from_nanos(1));
    run_until_idle().await;
    client.line("PING", "+PONG\r\n").await;
}

/// If the idle timeout is shorter than the command timeout, it applies to partial commands as well.
#[tokio::test]
async fn the_idle_timeout_covers_partial_commands() {
    let clock = ManualClock::new();
    let idle = COMMAND_TIMEOUT / 2;
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    let server = RespServer::with_limits(RespLimits { idle_timeout: idle, ..LIMITS }, sluice, None, clock);
    let mut client = server.connect();
    client.send("*1\r\n$4\r\nPI").await;
    run_until_idle().await;
    server.clock.advance(idle);
    assert_eq!(client.read_to_end().await, b"");
}

#[tokio::test]
async fn received_commands_get_replies_before_closing() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.send("PING\r\nPING\r\nPI").await;
    client.expect("+PONG\r\n+PONG\r\n").await;
    server.closing.send(()).unwrap();
    assert_eq!(client.read_to_end().await, b"");

    // Also with commands that wait for reply space.
    let server = RespServer::new();
    let mut greedy = server.connect_with(64);
    let taken = greedy.send_until_blocked(&command(&[b"PING"]), 1_000_000).await;
    server.closing.send(()).unwrap();
    let replies = greedy.read_to_end().await;
    // Bytes in flight have not been read.
    assert!(replies.len() / 7 + 10 >= taken / 14 - MAX_REQUEST / 14, "{} of {taken}", replies.len());
    assert!(replies.len().is_multiple_of(7));
}

/// A client accepted just before shutdown has its first command in flight: closing at once would waste the
/// connection.
#[tokio::test]
async fn a_new_client_may_send_one_command_during_shutdown() {
    let server = RespServer::new();
    let (mut early, silent) = (server.connect(), server.connect());
    run_until_idle().await;
    server.closing.send(()).unwrap();
    run_until_idle().await;
    early.line("PING", "+PONG\r\n").await;
    assert_eq!(early.read_to_end().await, b"");
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(silent.read_to_end().await, b"");
}

#[tokio::test]
async fn a_dropped_shutdown_sender_closes_the_connection() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    drop(server.closing);
    assert_eq!(client.read_to_end().await, b"");
}

#[tokio::test]
async fn a_half_closed_client_still_gets_replies() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.send("PING\r\nECHO x\r\nPI").await;
    client.io.shutdown().await.unwrap();
    assert_eq!(client.read_to_end().await, b"+PONG\r\n$1\r\nx\r\n");
}

#[tokio::test]
async fn a_disconnected_client_drops_its_timer() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    run_until_idle().await;
    assert_eq!(server.clock.pending_timers(), 1);
    drop(client.io);
    client.served.await.unwrap();
    assert_eq!(server.clock.pending_timers(), 0);
}

#[tokio::test]
async fn the_command_size_limit_is_exact() {
    let server = RespServer::new();
    let mut client = server.connect();
    let overhead = command(&[b"ECHO", &vec![b'x'; 60_000]]).len() - 60_000;
    let max_word = vec![b'x'; MAX_REQUEST - overhead];
    client.send(command(&[b"ECHO", &max_word])).await;
    client.expect(format!("${}\r\n{}\r\n", max_word.len(), "x".repeat(max_word.len()))).await;
    client.send(command(&[b"ECHO", &vec![b'x'; max_word.len() + 1]])).await;
    assert_eq!(client.read_to_end().await, b"-ERR Protocol error: invalid bulk length\r\n");
    let mut client = server.connect();
    client.send(vec![b'x'; MAX_REQUEST + 1]).await;
    assert_eq!(client.read_to_end().await, b"-ERR Protocol error: too big inline request\r\n");
}

#[test]
fn the_serve_future_is_send() {
    fn is_send<T: Send>(_: &T) {}
    let server = RespServer::new();
    is_send(&server.resp.serve(tokio::io::duplex(1).0, server.closing.subscribe()));
}
