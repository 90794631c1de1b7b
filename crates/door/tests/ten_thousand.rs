//! Ten thousand connections at a door for a thousand. Alone in its process: it counts the files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::io::Write;
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

/// How many come, and for how many there is room.
#[derive(Clone, Copy)]
struct Crowd {
    coming: usize,
    places: usize,
    queue: usize,
}

impl Crowd {
    const fn of(coming: usize) -> Self {
        Self { coming, places: coming / 10, queue: coming / 20 }
    }

    /// Both ends of every connection are in this process, and the rest is its own.
    const fn files(self) -> usize {
        self.coming + self.places + self.queue + 1_000
    }

    /// Each connection has a port of its own.
    const fn ports(self) -> usize {
        self.coming + 1_000
    }
}

#[test]
fn exactly_so_many_are_in_and_no_file_is_lost() {
    let all = Crowd::of(COMING);
    if std::env::var_os("WITH_MORE_FILES").is_none() && files_allowed().0 < all.files() {
        // The shell can raise what this process may open, up to what the system allows.
        let raised = format!("ulimit -n {} && exec \"$0\" \"$@\"", all.files().min(files_allowed().1));
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(raised).arg(this).env("WITH_MORE_FILES", "1");
        assert!(command.status().unwrap().success());
        return;
    }
    let (files, ports) = (files_allowed().0, ports_free());
    let fits = |crowd: &Crowd| crowd.files() <= files && crowd.ports() <= ports;
    let Some(crowd) = (1..=COMING / 1_000).rev().map(|thousands| Crowd::of(thousands * 1_000)).find(fits) else {
        panic!("{files} open files and {ports} ports do not do for a crowd of connections: raise `ulimit -n`");
    };
    if crowd.coming < COMING {
        let coming = crowd.coming;
        say(&format!("only {coming} come, not {COMING}: {files} open files and {ports} ports allow no more"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        warm_up().await;
        let before = files_open();
        for queue in [crowd.queue, 0] {
            all_come_at_once(Crowd { queue, ..crowd }).await;
            until("all files are given back", || files_open() == before).await;
        }
        many_clients().await;
        until("all files are given back", || files_open() == before).await;
    });
}

/// Also to those who see no output of tests that pass.
fn say(what: &str) {
    std::io::stderr().write_all(format!("ten_thousand: {what}\n").as_bytes()).unwrap();
}

async fn all_come_at_once(Crowd { coming: all, places: most, queue }: Crowd) {
    let door = FrontDoor::builder()
        .max_connections(most)
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
            for _ in 0..all / 100 {
                clients.push(come(at).await);
            }
            clients
        });
    }
    let clients = coming.join_all().await.into_iter().flatten();
    until("all have come", || handle.counts().accepted == all as u64).await;
    let counts = handle.counts();
    let refused = all - most - queue;
    assert_eq!((counts.open, counts.queued), (most, queue));
    assert_eq!((counts.entered, counts.refused.full), (most as u64, refused as u64));
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
    assert_eq!(staying.len(), most + queue);

    // As many as leave, enter.
    let mut places: Vec<Connection> = Vec::new();
    for _ in 0..most {
        places.push(next(&mut inside).await);
    }
    let leaving = queue / 2;
    places.drain(..leaving).for_each(drop);
    for _ in 0..leaving {
        places.push(next(&mut inside).await);
    }
    assert!(inside.try_recv().is_err());
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued), (most, queue - leaving));
    assert_eq!(counts.entered, (most + leaving) as u64);

    drop((places, staying));
    all_leave(inside, queue - leaving).await;
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.entered), (0, 0, (most + queue) as u64));
}

/// Many connections of each of twenty clients: each gets as many as one may have.
async fn many_clients() {
    let builder = FrontDoor::builder().max_connections(500).queue(0).per_client(10);
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

/// The files this process may open, and how far that can be raised.
fn files_allowed() -> (usize, usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut limits = line.split_whitespace().map(|limit| limit.parse().unwrap_or(usize::MAX));
    (limits.next().unwrap(), limits.next().unwrap())
}

/// The ports that a client gets one of.
fn ports_free() -> usize {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(|end| end.parse::<usize>().unwrap());
    ends.next().zip(ends.next()).map_or(usize::MAX, |(first, last)| last + 1 - first)
}
