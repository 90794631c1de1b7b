//! Connection limits: admitted, queued and rejected connections.

use crate::support;

use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_net::{LimitedListener, ListenerError, RejectMode};
use support::{accept_all, connect, connect_from, next_connection, read_to_end, request, send, settle, wait_until};
use tokio::net::TcpListener;

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn max_connections_holds_and_the_queue_is_fifo() {
    let listener = LimitedListener::builder().max_connections(2).queue(3).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let mut clients = Vec::new();
    for number in 1..=5 {
        clients.push(connect(at).await);
        wait_until("accepted", || handle.counts().accepted == number).await;
    }
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.admitted, counts.rejected.total()), (2, 3, 2, 0));

    let mut sixth = connect(at).await;
    let response = read_to_end(&mut sixth).await;
    assert!(response.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{response}");
    assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
    assert_eq!(handle.counts().rejected.full, 1);

    let first = next_connection(&mut accepted).await;
    let mut last = next_connection(&mut accepted).await;
    assert_eq!(first.peer_addr(), clients[0].local_addr().unwrap());
    assert_eq!(last.peer_addr(), clients[1].local_addr().unwrap());
    for client in &clients[2..] {
        drop(last);
        last = next_connection(&mut accepted).await;
        assert_eq!(last.peer_addr(), client.local_addr().unwrap());
        assert_eq!(handle.counts().open, 2);
    }
    drop((first, last));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.admitted, counts.rejected.total()), (0, 0, 5, 1));
}

#[tokio::test]
async fn a_queued_connection_is_rejected_at_the_queue_timeout() {
    let clock = ManualClock::new();
    let listener = LimitedListener::builder()
        .max_connections(1)
        .queue(2)
        .queue_timeout(Duration::from_secs(5))
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let connection = next_connection(&mut accepted).await;
    let mut second = connect(at).await;
    wait_until("the second is queued", || handle.counts().queued == 1).await;
    clock.advance(Duration::from_secs(3));
    let third = connect(at).await;
    wait_until("the third is queued", || handle.counts().queued == 2).await;

    clock.advance(Duration::from_secs(2) - Duration::from_nanos(1));
    settle().await;
    assert_eq!(handle.counts().queued, 2);
    clock.advance(Duration::from_nanos(1));
    assert!(read_to_end(&mut second).await.starts_with("HTTP/1.1 503 "));
    let counts = handle.counts();
    assert_eq!((counts.queued, counts.rejected.queue_timeout, counts.rejected.total()), (1, 1, 1));

    // The third has moved up and is admitted in time.
    clock.advance(Duration::from_secs(2));
    drop(connection);
    assert_eq!(next_connection(&mut accepted).await.peer_addr(), third.local_addr().unwrap());
}

#[tokio::test]
async fn the_per_client_limit_does_not_affect_other_clients() {
    let listener =
        LimitedListener::builder().max_connections(3).queue(2).per_client(2).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let client_ip = [127, 0, 0, 2];
    let first = connect_from(client_ip, at).await;
    let second = connect_from(client_ip, at).await;
    let (first_connection, _second_connection) =
        (next_connection(&mut accepted).await, next_connection(&mut accepted).await);
    for refused in 1..=10 {
        assert!(read_to_end(&mut connect_from(client_ip, at).await).await.starts_with("HTTP/1.1 503 "));
        assert_eq!(handle.counts().rejected.per_client, refused);
    }
    assert_eq!((handle.counts().open, handle.counts().queued), (2, 0));

    // Another client is not affected, and queued connections count too.
    let other = [127, 0, 0, 3];
    let _others = [connect_from(other, at).await, connect_from(other, at).await];
    let _other_connection = next_connection(&mut accepted).await;
    wait_until("one is queued", || handle.counts().queued == 1).await;
    assert!(read_to_end(&mut connect_from(other, at).await).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(handle.counts().rejected.per_client, 11);

    // A closed connection is no longer counted.
    drop((first_connection, first));
    let _other_second = next_connection(&mut accepted).await;
    let _again = connect_from(client_ip, at).await;
    wait_until("the request waits", || handle.counts().queued == 1).await;
    assert_eq!(handle.counts().rejected.total(), 11);
    drop(second);
}

#[tokio::test]
async fn a_client_that_is_still_sending_receives_the_503() {
    let listener = LimitedListener::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let _connection = next_connection(&mut accepted).await;
    for _ in 0..20 {
        let mut refused = connect(at).await;
        send(&mut refused, request("/").as_bytes()).await;
        send(&mut refused, vec![b'x'; 32 << 10]).await;
        assert!(read_to_end(&mut refused).await.starts_with("HTTP/1.1 503 "));
    }
    assert_eq!(handle.counts().rejected.full, 20);
}

#[tokio::test]
async fn a_lingering_rejected_client_is_closed_after_one_second() {
    let clock = ManualClock::new();
    let listener =
        LimitedListener::builder().max_connections(1).queue(0).clock(clock.clone()).bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let _connection = next_connection(&mut accepted).await;
    let mut refused = connect(at).await;
    assert!(read_to_end(&mut refused).await.starts_with("HTTP/1.1 503 "));
    // The client has read its response but does not close its side.
    wait_until("the rejected connection lingers", || clock.pending_timers() == 1).await;
    clock.advance(Duration::from_secs(1));
    wait_until("the listener has closed it", || clock.pending_timers() == 0).await;
}

#[tokio::test]
async fn rejections_beyond_the_linger_limit_still_get_a_503() {
    let listener = LimitedListener::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let _connection = next_connection(&mut accepted).await;
    let mut refused = Vec::new();
    for _ in 0..600 {
        let mut client = connect(at).await;
        send(&mut client, request("/")).await;
        refused.push(client); // and does not close its side
    }
    wait_until("all are refused", || handle.counts().rejected.full == 600).await;
    for client in &mut refused {
        assert!(read_to_end(client).await.starts_with("HTTP/1.1 503 "));
    }
}

#[tokio::test]
async fn reject_mode_close_sends_nothing() {
    let builder = LimitedListener::builder().max_connections(1).queue(0).reject_mode(RejectMode::Close);
    let listener = builder.bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let _connection = next_connection(&mut accepted).await;
    assert_eq!(read_to_end(&mut connect(at).await).await, "");
}

#[tokio::test]
async fn dropping_the_listener_rejects_queued_connections() {
    let listener = LimitedListener::builder().max_connections(1).queue(5).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);
    let _first = connect(at).await;
    let connection = next_connection(&mut accepted).await;
    let mut waiting = [connect(at).await, connect(at).await];
    wait_until("both are queued", || handle.counts().queued == 2).await;
    drop(accepted);
    for client in &mut waiting {
        assert!(read_to_end(client).await.starts_with("HTTP/1.1 503 "));
    }
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.rejected.closing), (1, 0, 2));
    drop(connection);
    assert_eq!(handle.counts().open, 0);
}

#[tokio::test]
async fn two_listeners_share_permits_and_queue() {
    let listener = LimitedListener::builder().max_connections(1).queue(2).bind("127.0.0.1:0").await.unwrap();
    let other = listener.add_listener(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (at, other_at, handle) = (listener.local_addr().unwrap(), other.local_addr().unwrap(), listener.handle());
    let (mut accepted, mut other_accepted) = (accept_all(listener), accept_all(other));
    let _first = connect(at).await;
    let first = next_connection(&mut accepted).await;
    let second = connect(other_at).await;
    wait_until("the second is queued", || handle.counts().queued == 1).await;
    let third = connect(at).await;
    wait_until("the third is queued", || handle.counts().queued == 2).await;
    assert!(read_to_end(&mut connect(other_at).await).await.starts_with("HTTP/1.1 503 "));

    drop(first);
    let connection = next_connection(&mut other_accepted).await;
    assert_eq!(connection.peer_addr(), second.local_addr().unwrap());
    drop(connection);
    assert_eq!(next_connection(&mut accepted).await.peer_addr(), third.local_addr().unwrap());
}

#[tokio::test]
async fn cancelling_accept_loses_no_connection() {
    let mut listener = LimitedListener::builder().max_connections(2).queue(2).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let clients = [connect(at).await, connect(at).await, connect(at).await, connect(at).await];
    let mut accepted = Vec::new();
    while accepted.len() < 2 {
        if let Ok(connection) = tokio::time::timeout(NOW, listener.accept()).await {
            accepted.push(connection);
        }
    }
    while handle.counts().queued < 2 {
        assert!(tokio::time::timeout(NOW, listener.accept()).await.is_err());
        settle().await;
    }
    drop(accepted);
    let third = listener.accept().await;
    let fourth = listener.accept().await;
    assert_eq!(third.peer_addr(), clients[2].local_addr().unwrap());
    assert_eq!(fourth.peer_addr(), clients[3].local_addr().unwrap());
}

#[tokio::test]
async fn invalid_settings_are_rejected_with_a_remedy() {
    let builder = LimitedListener::builder;
    for (builder, expected) in [
        (
            builder().max_connections(0),
            "max_connections is zero: it must be at least 1 (to accept no connections, remove the listener)",
        ),
        (builder().per_client(0), "per_client is zero: it must be at least 1 (for no limit, omit it)"),
        (builder().in_flight(0), "in_flight is zero: it must be at least 1 (for no limit, omit it)"),
        (builder().max_streams(0), "max_streams is zero: it must be at least 1 (for no limit, omit it)"),
        (builder().header_timeout(NOW), "header_timeout is zero: set a duration, such as 10 seconds"),
        (builder().keep_alive(NOW), "keep_alive is zero: set a duration, such as 10 seconds"),
        (builder().queue(usize::MAX), "queue 18446744073709551615 is too large: the maximum is 4294967295"),
        (builder().in_flight(usize::MAX), "in_flight 18446744073709551615 is too large: the maximum is 4294967295"),
    ] {
        assert_eq!(builder.bind("127.0.0.1:0").await.unwrap_err().to_string(), expected);
    }
    let error = builder().max_connections(4_000_000_000).bind("127.0.0.1:0").await.unwrap_err();
    assert!(matches!(error, ListenerError::TooFewFiles { .. }), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let error = builder().max_connections(1).bind(&at).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen at {at}: ")), "{error}");
}
