//! Ten thousand connections at a door for a thousand. Alone in its process: it counts the files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_door::{Connection, FrontDoor};
use support::{GUARD, connect, connect_from, next, open, request, rest, send, until};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

const COMING: usize = 10_000;
const PLACES: usize = 1_000;
const QUEUE: usize = 500;

/// Both ends of every connection are in this process.
const FILES: usize = COMING + PLACES + QUEUE + 1_000;

#[test]
fn exactly_so_many_are_in_and_no_file_is_lost() {
    if std::env::var_os("WITH_MORE_FILES").is_none() && files_allowed() < FILES {
        // The shell can raise what this process may open, up to what the system allows.
        let raised = format!("ulimit -n {FILES} && exec \"$0\" \"$@\"");
        let this = std::env::current_exe().unwrap();
        let status = Command::new("sh").arg("-c").arg(raised).arg(this).env("WITH_MORE_FILES", "1").status().unwrap();
        assert!(status.success(), "failed, or this system does not allow {FILES} open files");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        warm_up().await;
        let before = files_open();
        for queue in [QUEUE, 0] {
            all_come_at_once(queue).await;
            until("all files are given back", || files_open() == before).await;
        }
        many_clients().await;
        until("all files are given back", || files_open() == before).await;
    });
}

async fn all_come_at_once(queue: usize) {
    let door = FrontDoor::builder()
        .max_connections(PLACES)
        .queue(queue)
        .queue_wait(Duration::from_secs(3_600))
        .backlog(4_096) // a full one costs its client a second
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let mut inside = open(door);

    // A hundred at a time, each as fast as it can. Nobody looks at an answer before all have come.
    let mut coming = JoinSet::new();
    for _ in 0..100 {
        coming.spawn(async move {
            let mut clients = Vec::new();
            for _ in 0..COMING / 100 {
                clients.push(come(at).await);
            }
            clients
        });
    }
    let clients = coming.join_all().await.into_iter().flatten();
    until("all have come", || handle.counts().accepted == COMING as u64).await;
    let counts = handle.counts();
    let refused = COMING - PLACES - queue;
    assert_eq!((counts.open, counts.queued), (PLACES, queue));
    assert_eq!((counts.entered, counts.refused.full), (PLACES as u64, refused as u64));
    assert_eq!(counts.refused.total(), refused as u64);

    // Each of the refused reads its answer, and nobody else reads anything.
    let (enough, _) = watch::channel(());
    let told = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    for mut client in clients {
        let (mut enough, told) = (enough.subscribe(), Arc::clone(&told));
        reading.spawn(async move {
            tokio::select! {
                biased;
                _ = client.readable() => {}
                _ = enough.changed() => return Some(client),
            }
            assert!(rest(&mut client).await.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
            told.fetch_add(1, Ordering::SeqCst);
            None
        });
    }
    until("all refused are told", || told.load(Ordering::SeqCst) >= refused).await;
    enough.send_replace(());
    let staying: Vec<TcpStream> = reading.join_all().await.into_iter().flatten().collect();
    assert_eq!(staying.len(), PLACES + queue);

    // As many as leave, enter.
    let mut places: Vec<Connection> = Vec::new();
    for _ in 0..PLACES {
        places.push(next(&mut inside).await);
    }
    let leaving = queue / 2;
    places.drain(..leaving).for_each(drop);
    for _ in 0..leaving {
        places.push(next(&mut inside).await);
    }
    assert!(inside.try_recv().is_err());
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued), (PLACES, queue - leaving));
    assert_eq!(counts.entered, (PLACES + leaving) as u64);

    drop((places, staying));
    all_leave(inside, queue - leaving).await;
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.entered), (0, 0, (PLACES + queue) as u64));
}

/// Many connections of each of twenty clients: each gets as many as one may have.
async fn many_clients() {
    let builder = FrontDoor::builder().max_connections(PLACES).queue(0).per_client(10);
    let door = builder.bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let inside = open(door);
    let mut clients = JoinSet::new();
    for number in 1..=20 {
        clients.spawn(async move {
            let mut connections = Vec::new();
            for _ in 0..50 {
                connections.push(connect_from([127, 0, 1, number], at).await);
            }
            connections
        });
    }
    let clients = clients.join_all().await;
    until("all have come", || handle.counts().accepted == 1_000).await;
    let counts = handle.counts();
    assert_eq!((counts.open, counts.refused.per_client, counts.refused.total()), (200, 800, 800));
    drop((clients, inside));
    until("the door is empty", || handle.counts().open == 0).await;
}

/// Comes, asks, and does not look at the answer yet.
async fn come(at: SocketAddr) -> TcpStream {
    let mut client = connect(at).await;
    // A door that is quick has refused before the request is written.
    send(&mut client, request("/")).await;
    client
}

async fn all_leave(mut inside: mpsc::UnboundedReceiver<Connection>, waiting: usize) {
    for _ in 0..waiting {
        drop(next(&mut inside).await);
    }
}

/// Whatever is opened once and stays: the runtime's own files. Nothing else is open when this returns.
async fn warm_up() {
    let mut door = FrontDoor::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let _client = connect(door.local_addr().unwrap()).await;
    drop(timeout(GUARD, door.accept()).await.unwrap());
}

fn files_open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn files_allowed() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}
