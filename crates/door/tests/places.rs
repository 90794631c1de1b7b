//! Who gets a place, who waits, who is refused and how.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use sluicegate_door::{DoorError, FrontDoor, Refusal};
use sluicegate_engine::clock::ManualClock;
use support::{connect, connect_from, next, open, request, rest, send, settle, until};
use tokio::net::TcpListener;

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn at_most_so_many_are_in_and_the_queue_is_first_in_first_out() {
    let door = FrontDoor::builder().max_connections(2).queue(3).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let mut clients = Vec::new();
    for number in 1..=5 {
        clients.push(connect(at).await);
        until("accepted", || handle.counts().accepted == number).await;
    }
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.entered, counts.refused.total()), (2, 3, 2, 0));

    let mut sixth = connect(at).await;
    let told = rest(&mut sixth).await;
    assert!(told.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{told}");
    assert!(told.contains("\r\nretry-after: 1\r\n"), "{told}");
    assert_eq!(handle.counts().refused.full, 1);

    let first = next(&mut inside).await;
    let mut last = next(&mut inside).await;
    assert_eq!(first.peer_addr(), clients[0].local_addr().unwrap());
    assert_eq!(last.peer_addr(), clients[1].local_addr().unwrap());
    for client in &clients[2..] {
        drop(last);
        last = next(&mut inside).await;
        assert_eq!(last.peer_addr(), client.local_addr().unwrap());
        assert_eq!(handle.counts().open, 2);
    }
    drop((first, last));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.entered, counts.refused.total()), (0, 0, 5, 1));
}

#[tokio::test]
async fn whoever_has_waited_long_enough_is_told_so() {
    let clock = ManualClock::new();
    let door = FrontDoor::builder()
        .max_connections(1)
        .queue(2)
        .queue_wait(Duration::from_secs(5))
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let _first = connect(at).await;
    let place = next(&mut inside).await;
    let mut second = connect(at).await;
    until("the second waits", || handle.counts().queued == 1).await;
    clock.advance(Duration::from_secs(3));
    let third = connect(at).await;
    until("the third waits", || handle.counts().queued == 2).await;

    clock.advance(Duration::from_secs(2) - Duration::from_nanos(1));
    settle().await;
    assert_eq!(handle.counts().queued, 2);
    clock.advance(Duration::from_nanos(1));
    assert!(rest(&mut second).await.starts_with("HTTP/1.1 503 "));
    let counts = handle.counts();
    assert_eq!((counts.queued, counts.refused.queue_wait, counts.refused.total()), (1, 1, 1));

    // The third has moved up, and enters in its time.
    clock.advance(Duration::from_secs(2));
    drop(place);
    assert_eq!(next(&mut inside).await.peer_addr(), third.local_addr().unwrap());
}

#[tokio::test]
async fn one_client_has_its_bound_and_takes_nobodys_place() {
    let door = FrontDoor::builder().max_connections(3).queue(2).per_client(2).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let greedy = [127, 0, 0, 2];
    let first = connect_from(greedy, at).await;
    let second = connect_from(greedy, at).await;
    let (first_place, _second_place) = (next(&mut inside).await, next(&mut inside).await);
    for refused in 1..=10 {
        assert!(rest(&mut connect_from(greedy, at).await).await.starts_with("HTTP/1.1 503 "));
        assert_eq!(handle.counts().refused.per_client, refused);
    }
    assert_eq!((handle.counts().open, handle.counts().queued), (2, 0));

    // Another client is not concerned, and those who wait count too.
    let other = [127, 0, 0, 3];
    let _others = [connect_from(other, at).await, connect_from(other, at).await];
    let _other_place = next(&mut inside).await;
    until("one waits", || handle.counts().queued == 1).await;
    assert!(rest(&mut connect_from(other, at).await).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(handle.counts().refused.per_client, 11);

    // A closed connection counts no longer.
    drop((first_place, first));
    let _other_second = next(&mut inside).await;
    let _again = connect_from(greedy, at).await;
    until("it waits", || handle.counts().queued == 1).await;
    assert_eq!(handle.counts().refused.total(), 11);
    drop(second);
}

#[tokio::test]
async fn a_refusal_is_read_by_whoever_is_still_sending() {
    let door = FrontDoor::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let _first = connect(at).await;
    let _place = next(&mut inside).await;
    for _ in 0..20 {
        let mut refused = connect(at).await;
        send(&mut refused, request("/").as_bytes()).await;
        send(&mut refused, vec![b'x'; 32 << 10]).await;
        assert!(rest(&mut refused).await.starts_with("HTTP/1.1 503 "));
    }
    assert_eq!(handle.counts().refused.full, 20);
}

#[tokio::test]
async fn a_refused_client_who_stays_is_left_after_a_second() {
    let clock = ManualClock::new();
    let door = FrontDoor::builder().max_connections(1).queue(0).clock(clock.clone()).bind("127.0.0.1:0").await.unwrap();
    let at = door.local_addr().unwrap();
    let mut inside = open(door);
    let _first = connect(at).await;
    let _place = next(&mut inside).await;
    let mut refused = connect(at).await;
    assert!(rest(&mut refused).await.starts_with("HTTP/1.1 503 "));
    // It has read its answer, but does not close its side.
    until("the door waits for it", || clock.alarms() == 1).await;
    clock.advance(Duration::from_secs(1));
    until("the door has closed", || clock.alarms() == 0).await;
}

#[tokio::test]
async fn more_refusals_than_can_be_seen_off_are_answered_all_the_same() {
    let door = FrontDoor::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let _first = connect(at).await;
    let _place = next(&mut inside).await;
    let mut refused = Vec::new();
    for _ in 0..600 {
        let mut client = connect(at).await;
        send(&mut client, request("/")).await;
        refused.push(client); // and does not close its side
    }
    until("all are refused", || handle.counts().refused.full == 600).await;
    for client in &mut refused {
        assert!(rest(client).await.starts_with("HTTP/1.1 503 "));
    }
}

#[tokio::test]
async fn a_door_can_refuse_without_a_word() {
    let builder = FrontDoor::builder().max_connections(1).queue(0).refusal(Refusal::Close);
    let door = builder.bind("127.0.0.1:0").await.unwrap();
    let at = door.local_addr().unwrap();
    let mut inside = open(door);
    let _first = connect(at).await;
    let _place = next(&mut inside).await;
    assert_eq!(rest(&mut connect(at).await).await, "");
}

#[tokio::test]
async fn a_door_that_is_dropped_tells_those_who_wait() {
    let door = FrontDoor::builder().max_connections(1).queue(5).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);
    let _first = connect(at).await;
    let place = next(&mut inside).await;
    let mut waiting = [connect(at).await, connect(at).await];
    until("both wait", || handle.counts().queued == 2).await;
    drop(inside);
    for client in &mut waiting {
        assert!(rest(client).await.starts_with("HTTP/1.1 503 "));
    }
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.refused.closing), (1, 0, 2));
    drop(place);
    assert_eq!(handle.counts().open, 0);
}

#[tokio::test]
async fn two_listeners_of_one_door_share_its_places_and_its_queue() {
    let door = FrontDoor::builder().max_connections(1).queue(2).bind("127.0.0.1:0").await.unwrap();
    let other = door.also_at(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (at, other_at, handle) = (door.local_addr().unwrap(), other.local_addr().unwrap(), door.handle());
    let (mut inside, mut other_inside) = (open(door), open(other));
    let _first = connect(at).await;
    let first = next(&mut inside).await;
    let second = connect(other_at).await;
    until("the second waits", || handle.counts().queued == 1).await;
    let third = connect(at).await;
    until("the third waits", || handle.counts().queued == 2).await;
    assert!(rest(&mut connect(other_at).await).await.starts_with("HTTP/1.1 503 "));

    drop(first);
    let place = next(&mut other_inside).await;
    assert_eq!(place.peer_addr(), second.local_addr().unwrap());
    drop(place);
    assert_eq!(next(&mut inside).await.peer_addr(), third.local_addr().unwrap());
}

#[tokio::test]
async fn giving_up_on_accept_loses_nobody() {
    let mut door = FrontDoor::builder().max_connections(2).queue(2).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let clients = [connect(at).await, connect(at).await, connect(at).await, connect(at).await];
    let mut inside = Vec::new();
    while inside.len() < 2 {
        if let Ok(connection) = tokio::time::timeout(NOW, door.accept()).await {
            inside.push(connection);
        }
    }
    while handle.counts().queued < 2 {
        assert!(tokio::time::timeout(NOW, door.accept()).await.is_err());
        settle().await;
    }
    drop(inside);
    let third = door.accept().await;
    let fourth = door.accept().await;
    assert_eq!(third.peer_addr(), clients[2].local_addr().unwrap());
    assert_eq!(fourth.peer_addr(), clients[3].local_addr().unwrap());
}

#[tokio::test]
async fn numbers_that_make_no_sense_are_refused_with_the_remedy() {
    let builder = FrontDoor::builder;
    for (builder, expected) in [
        (
            builder().max_connections(0),
            "max_connections is zero: it must be at least 1 (to serve nobody, do not listen)",
        ),
        (builder().per_client(0), "per_client is zero: it must be at least 1 (to set no bound, leave it out)"),
        (builder().in_flight(0), "in_flight is zero: it must be at least 1 (to set no bound, leave it out)"),
        (builder().max_streams(0), "max_streams is zero: it must be at least 1 (to set no bound, leave it out)"),
        (builder().header_deadline(NOW), "header_deadline is zero: give a time, such as 10 seconds"),
        (builder().keep_alive(NOW), "keep_alive is zero: give a time, such as 10 seconds"),
        (builder().queue(usize::MAX), "queue 18446744073709551615 is too large: the most is 4294967295"),
        (builder().in_flight(usize::MAX), "in_flight 18446744073709551615 is too large: the most is 4294967295"),
    ] {
        assert_eq!(builder.bind("127.0.0.1:0").await.unwrap_err().to_string(), expected);
    }
    let error = builder().max_connections(4_000_000_000).bind("127.0.0.1:0").await.unwrap_err();
    assert!(matches!(error, DoorError::TooFewFiles { .. }), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let error = builder().max_connections(1).bind(&at).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen at {at}: ")), "{error}");
}
