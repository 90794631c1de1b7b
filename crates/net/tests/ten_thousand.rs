//! Ten thousand connections to a server for a thousand. Runs alone in its process because it counts file
//! descriptors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_net::{Connection, LimitedListener};
use support::{
    TEST_TIMEOUT, accept_all, connect, connect_from, next_connection, read_to_end, request, send, wait_until,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

const MAX_CLIENTS: usize = 10_000;

/// Number of clients, and the limits of the server.
#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    max_connections: usize,
    queue: usize,
}

impl Load {
    const fn of(connecting: usize) -> Self {
        Self { clients: connecting, max_connections: connecting / 10, queue: connecting / 20 }
    }

    /// Both ends of every connection are in this process; the constant covers everything else.
    const fn required_fds(self) -> usize {
        self.clients + self.max_connections + self.queue + 1_000
    }

    /// Each connection uses one local port.
    const fn required_ports(self) -> usize {
        self.clients + 1_000
    }
}

#[test]
fn max_connections_is_exact_and_no_fd_leaks() {
    let all = Load::of(MAX_CLIENTS);
    if std::env::var_os("WITH_MORE_FILES").is_none() && fd_limits().0 < all.required_fds() {
        // The shell can raise the soft limit up to the hard limit.
        let raised = format!("ulimit -n {} && exec \"$0\" \"$@\"", all.required_fds().min(fd_limits().1));
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(raised).arg(this).env("WITH_MORE_FILES", "1");
        assert!(command.status().unwrap().success());
        return;
    }
    let (files, ports) = (fd_limits().0, ephemeral_ports());
    let fits = |load: &Load| load.required_fds() <= files && load.required_ports() <= ports;
    let Some(load) = (1..=MAX_CLIENTS / 1_000).rev().map(|thousands| Load::of(thousands * 1_000)).find(fits) else {
        panic!("{files} open files and {ports} ports are not enough for the test: raise `ulimit -n`");
    };
    if load.clients < MAX_CLIENTS {
        let connecting = load.clients;
        print_note(&format!(
            "only {connecting} clients, not {MAX_CLIENTS}: {files} open files and {ports} ports allow no more"
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        warm_up().await;
        let before = open_fds();
        for queue in [load.queue, 0] {
            connect_all_at_once(Load { queue, ..load }).await;
            wait_until("all file descriptors are closed", || open_fds() == before).await;
        }
        per_client_limit_with_many_clients().await;
        wait_until("all file descriptors are closed", || open_fds() == before).await;
    });
}

/// Writes to stderr directly, so that it shows for passing tests too.
fn print_note(label: &str) {
    std::io::stderr().write_all(format!("ten_thousand: {label}\n").as_bytes()).unwrap();
}

async fn connect_all_at_once(Load { clients: all, max_connections: max, queue }: Load) {
    let listener = LimitedListener::builder()
        .max_connections(max)
        .queue(queue)
        .queue_timeout(Duration::from_secs(3_600))
        .backlog(4_096) // a full one costs its client a second
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let mut accepted = accept_all(listener);

    // A hundred clients at a time, as fast as possible. No response is read before all have connected.
    let mut connecting = JoinSet::new();
    for _ in 0..100 {
        connecting.spawn(async move {
            let mut clients = Vec::new();
            for _ in 0..all / 100 {
                clients.push(connect_and_send(at).await);
            }
            clients
        });
    }
    let clients = connecting.join_all().await.into_iter().flatten();
    wait_until("all are connected", || handle.counts().accepted == all as u64).await;
    let counts = handle.counts();
    let refused = all - max - queue;
    assert_eq!((counts.open, counts.queued), (max, queue));
    assert_eq!((counts.admitted, counts.rejected.full), (max as u64, refused as u64));
    assert_eq!(counts.rejected.total(), refused as u64);

    // Each rejected client reads its response; the others receive nothing.
    let (enough, _) = watch::channel(());
    let rejected = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    for mut client in clients {
        let (mut enough, response) = (enough.subscribe(), Arc::clone(&rejected));
        reading.spawn(async move {
            tokio::select! {
                biased;
                _ = client.readable() => {}
                _ = enough.changed() => return Some(client),
            }
            assert!(read_to_end(&mut client).await.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
            response.fetch_add(1, Ordering::SeqCst);
            None
        });
    }
    wait_until("all rejected clients got a response", || rejected.load(Ordering::SeqCst) >= refused).await;
    enough.send_replace(());
    let remaining: Vec<TcpStream> = reading.join_all().await.into_iter().flatten().collect();
    assert_eq!(remaining.len(), max + queue);

    // Each closed connection admits one queued connection.
    let mut served: Vec<Connection> = Vec::new();
    for _ in 0..max {
        served.push(next_connection(&mut accepted).await);
    }
    let leaving = queue / 2;
    served.drain(..leaving).for_each(drop);
    for _ in 0..leaving {
        served.push(next_connection(&mut accepted).await);
    }
    assert!(accepted.try_recv().is_err());
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued), (max, queue - leaving));
    assert_eq!(counts.admitted, (max + leaving) as u64);

    drop((served, remaining));
    drop_queued(accepted, queue - leaving).await;
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.admitted), (0, 0, (max + queue) as u64));
}

/// Many connections from each of twenty clients: each client is admitted up to its limit.
async fn per_client_limit_with_many_clients() {
    let builder = LimitedListener::builder().max_connections(500).queue(0).per_client(10);
    let listener = builder.bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let accepted = accept_all(listener);
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
    wait_until("all are connected", || handle.counts().accepted == 1_000).await;
    let counts = handle.counts();
    assert_eq!((counts.open, counts.rejected.per_client, counts.rejected.total()), (200, 800, 800));
    drop((clients, accepted));
    wait_until("all connections are closed", || handle.counts().open == 0).await;
}

/// Connects and sends a request without reading the response.
async fn connect_and_send(at: SocketAddr) -> TcpStream {
    let mut client = connect(at).await;
    // The server may have rejected the connection before the request is written.
    send(&mut client, request("/")).await;
    client
}

async fn drop_queued(mut accepted: mpsc::UnboundedReceiver<Connection>, waiting: usize) {
    for _ in 0..waiting {
        drop(next_connection(&mut accepted).await);
    }
}

/// Opens the runtime's own file descriptors, which stay open. Nothing else is open on return.
async fn warm_up() {
    let mut listener = LimitedListener::builder().max_connections(1).queue(0).bind("127.0.0.1:0").await.unwrap();
    let _client = connect(listener.local_addr().unwrap()).await;
    drop(timeout(TEST_TIMEOUT, listener.accept()).await.unwrap());
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Soft and hard open-file limits of this process.
fn fd_limits() -> (usize, usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut limits = line.split_whitespace().map(|limit| limit.parse().unwrap_or(usize::MAX));
    (limits.next().unwrap(), limits.next().unwrap())
}

/// Number of ephemeral ports.
fn ephemeral_ports() -> usize {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(|end| end.parse::<usize>().unwrap());
    ends.next().zip(ends.next()).map_or(usize::MAX, |(first, last)| last + 1 - first)
}
