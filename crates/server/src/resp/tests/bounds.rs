//! A client costs only itself: unread replies, silence, and the end.

use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use tokio::io::AsyncWriteExt;

use super::super::connection::{MOST_UNSENT, TAKING};
use super::{BOUNDS, Bounds, Client, IDLE, MAX_REQUEST, Server, WHOLE_COMMAND, command, settle};

impl Client {
    /// Sends as much of these bytes as is taken without waiting for long, and says how much that was.
    async fn stuff(&mut self, bytes: &[u8], times: usize) -> usize {
        let mut taken = 0;
        for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                let write = self.io.write(rest);
                tokio::pin!(write);
                let written = tokio::select! {
                    biased;
                    written = &mut write => written.unwrap_or(0),
                    () = settle() => return taken,
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
async fn a_million_commands_whose_replies_nobody_reads_cost_only_their_connection() {
    let server = Server::new();
    let mut greedy = server.connect_with(4 * 1024);
    let ping = command(&[b"PING"]).repeat(100);
    let taken = greedy.stuff(&ping, 10_000).await;
    // It was read from until a mebibyte of replies waited, half as many bytes as the commands; and not much further.
    assert!((MOST_UNSENT..3 * MOST_UNSENT).contains(&taken), "{taken}");
    // Others are served as ever.
    let mut other = server.connect();
    other.line("PING", "+PONG\r\n").await;
    // Once it reads, it gets every reply, and is read from again.
    let mut read = 0;
    let mut sink = vec![0; 64 * 1024];
    let whole = taken / 14;
    while read < whole * 7 {
        read += tokio::io::AsyncReadExt::read(&mut greedy.io, &mut sink).await.unwrap();
    }
    assert!(greedy.stuff(&ping, 10).await > 0);
    drop(greedy);
}

#[tokio::test]
async fn who_takes_no_replies_is_let_go() {
    let server = Server::new();
    let mut greedy = server.connect_with(1024);
    greedy.stuff(&command(&[b"PING"]).repeat(1_000), 1_000).await;
    server.clock.advance(TAKING - Duration::from_nanos(1));
    settle().await;
    assert!(!greedy.served.is_finished());
    server.clock.advance(Duration::from_nanos(1));
    settle().await;
    // It is let go; the goodbye has its time too.
    server.clock.advance(TAKING);
    settle().await;
    assert!(greedy.served.is_finished());
}

#[tokio::test]
async fn who_is_silent_for_too_long_is_let_go_and_who_speaks_is_not() {
    let server = Server::new();
    let mut client = server.connect();
    for _ in 0..5 {
        client.line("PING", "+PONG\r\n").await;
        settle().await;
        server.clock.advance(IDLE - Duration::from_nanos(1));
        settle().await;
        assert!(!client.served.is_finished());
    }
    assert_eq!(server.clock.alarms(), 1, "one alarm for each connection");
    server.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.rest().await, b"");
    assert_eq!(server.clock.alarms(), 0);
}

/// Each byte was taken for a sign of life, and half a command held for as long as silence may last.
#[tokio::test]
async fn half_a_command_is_not_held_for_longer_if_it_comes_in_drops() {
    let server = Server::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    settle().await;
    server.clock.advance(WHOLE_COMMAND);
    client.send("*2\r\n$4\r\nECHO\r\n$100\r\n").await;
    for _ in 0..19 {
        settle().await;
        server.clock.advance(WHOLE_COMMAND / 20);
        client.send("x").await;
    }
    settle().await;
    assert_eq!(server.clock.alarms(), 1, "one alarm for each connection");
    server.clock.advance(WHOLE_COMMAND / 20 - Duration::from_nanos(1));
    settle().await;
    assert!(!client.served.is_finished());
    server.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.rest().await, b"");
    assert_eq!(server.clock.alarms(), 0);
}

#[tokio::test]
async fn each_command_has_the_whole_time_to_come() {
    let server = Server::new();
    let mut client = server.connect();
    let almost = WHOLE_COMMAND - Duration::from_nanos(1);
    client.send("PI").await;
    for _ in 0..5 {
        settle().await;
        server.clock.advance(almost);
        settle().await;
        // The end of one, with the beginning of the next.
        client.send("NG\r\nPI").await;
        client.expect("+PONG\r\n").await;
    }
    client.line("NG", "+PONG\r\n").await;
    settle().await;
    // Silence between two commands has the time that silence has.
    server.clock.advance(IDLE - Duration::from_nanos(1));
    settle().await;
    client.line("PING", "+PONG\r\n").await;
}

/// Where silence has less time than a command, half a command is silence.
#[tokio::test]
async fn half_a_command_is_silence_too() {
    let clock = ManualClock::new();
    let idle = WHOLE_COMMAND / 2;
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    let server = Server::within(Bounds { idle, ..BOUNDS }, sluice, None, clock);
    let mut client = server.connect();
    client.send("*1\r\n$4\r\nPI").await;
    settle().await;
    server.clock.advance(idle);
    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn what_was_read_is_answered_before_it_closes() {
    let server = Server::new();
    let mut client = server.connect();
    client.send("PING\r\nPING\r\nPI").await;
    client.expect("+PONG\r\n+PONG\r\n").await;
    server.closing.send(()).unwrap();
    assert_eq!(client.rest().await, b"");

    // Also where commands wait for room.
    let server = Server::new();
    let mut greedy = server.connect_with(64);
    let taken = greedy.stuff(&command(&[b"PING"]), 1_000_000).await;
    server.closing.send(()).unwrap();
    let replies = greedy.rest().await;
    // What is on the way has not been read.
    assert!(replies.len() / 7 + 10 >= taken / 14 - MAX_REQUEST / 14, "{} of {taken}", replies.len());
    assert!(replies.len().is_multiple_of(7));
}

/// A client that was let in just before the server stops has its first command on the way: closed at once, it would have
/// connected in vain.
#[tokio::test]
async fn a_client_that_has_asked_nothing_yet_may_ask_once() {
    let server = Server::new();
    let (mut early, silent) = (server.connect(), server.connect());
    settle().await;
    server.closing.send(()).unwrap();
    settle().await;
    early.line("PING", "+PONG\r\n").await;
    assert_eq!(early.rest().await, b"");
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(silent.rest().await, b"");
}

#[tokio::test]
async fn it_closes_when_nobody_can_say_so_any_more() {
    let server = Server::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    drop(server.closing);
    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn who_has_nothing_more_to_say_still_hears_the_answers() {
    let server = Server::new();
    let mut client = server.connect();
    client.send("PING\r\nECHO x\r\nPI").await;
    client.io.shutdown().await.unwrap();
    assert_eq!(client.rest().await, b"+PONG\r\n$1\r\nx\r\n");
}

#[tokio::test]
async fn a_client_that_goes_takes_its_alarm_along() {
    let server = Server::new();
    let mut client = server.connect();
    client.line("PING", "+PONG\r\n").await;
    settle().await;
    assert_eq!(server.clock.alarms(), 1);
    drop(client.io);
    client.served.await.unwrap();
    assert_eq!(server.clock.alarms(), 0);
}

#[tokio::test]
async fn the_longest_command_fits_and_a_longer_one_does_not() {
    let server = Server::new();
    let mut client = server.connect();
    let overhead = command(&[b"ECHO", &vec![b'x'; 60_000]]).len() - 60_000;
    let longest = vec![b'x'; MAX_REQUEST - overhead];
    client.send(command(&[b"ECHO", &longest])).await;
    client.expect(format!("${}\r\n{}\r\n", longest.len(), "x".repeat(longest.len()))).await;
    client.send(command(&[b"ECHO", &vec![b'x'; longest.len() + 1]])).await;
    assert_eq!(client.rest().await, b"-ERR Protocol error: invalid bulk length\r\n");
    let mut client = server.connect();
    client.send(vec![b'x'; MAX_REQUEST + 1]).await;
    assert_eq!(client.rest().await, b"-ERR Protocol error: too big inline request\r\n");
}

#[test]
fn serving_can_be_moved_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let server = Server::new();
    is_send(&server.resp.serve(tokio::io::duplex(1).0, server.closing.subscribe()));
}
