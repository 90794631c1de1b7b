//! Test support: raw clients, a server, and waiting for conditions.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use sluicegate_net::{Connection, LimitedListener, ListenerHandle, ShutdownReport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Guard against a test that hangs.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
pub(crate) async fn wait_until(label: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("timed out: {label}"));
}

/// Yields so that other tasks can make progress.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn connect(to: SocketAddr) -> TcpStream {
    timeout(TEST_TIMEOUT, TcpStream::connect(to)).await.unwrap().unwrap()
}

pub(crate) async fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(TEST_TIMEOUT, socket.connect(to)).await.unwrap().unwrap()
}

/// Reads until the peer closes.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    timeout(TEST_TIMEOUT, stream.read_to_end(&mut text)).await.unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

pub(crate) fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: shop\r\n\r\n")
}

pub(crate) async fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).await.unwrap();
}

/// Reads one response with a content length, and no byte beyond it.
pub(crate) async fn read_response(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(timeout(TEST_TIMEOUT, stream.read_u8()).await.unwrap().unwrap()));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    timeout(TEST_TIMEOUT, stream.read_exact(&mut body)).await.unwrap().unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

pub(crate) async fn get(stream: &mut TcpStream, path: &str) -> String {
    send(stream, request(path)).await;
    read_response(stream).await
}

/// Accepts all admitted connections in the background.
pub(crate) fn accept_all(mut listener: LimitedListener) -> mpsc::UnboundedReceiver<Connection> {
    let (sender, accepted) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                connection = listener.accept() => drop(sender.send(connection)),
                () = sender.closed() => return,
            }
        }
    });
    accepted
}

pub(crate) async fn next_connection(accepted: &mut mpsc::UnboundedReceiver<Connection>) -> Connection {
    timeout(TEST_TIMEOUT, accepted.recv()).await.unwrap().unwrap()
}

/// A server that runs until it is dropped or stopped.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) handle: ListenerHandle,
    stop: oneshot::Sender<()>,
    report: JoinHandle<ShutdownReport>,
}

impl Server {
    pub(crate) fn of(listener: LimitedListener, app: Router, grace: Duration) -> Self {
        let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
        let (stop, stopped) = oneshot::channel();
        let signal = async { drop(stopped.await) };
        let report = tokio::spawn(listener.serve(app).with_graceful_shutdown(signal).grace(grace).into_future());
        Self { at, handle, stop, report }
    }

    pub(crate) fn abort(self) {
        self.report.abort();
    }

    /// Stops the server; the report resolves once it has shut down.
    pub(crate) fn stop(self) -> JoinHandle<ShutdownReport> {
        drop(self.stop);
        self.report
    }
}
