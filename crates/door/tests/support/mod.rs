//! What the tests of the door share: clients, and waiting for something to be so.
#![allow(dead_code, reason = "no test uses all of it")]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use sluicegate_door::{Connection, DoorHandle, FrontDoor, Report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Only a guard against hanging for ever.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let waiting = async {
        while !met() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(GUARD, waiting).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

/// Lets everybody else do what there is to do.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn connect(to: SocketAddr) -> TcpStream {
    timeout(GUARD, TcpStream::connect(to)).await.unwrap().unwrap()
}

pub(crate) async fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(GUARD, socket.connect(to)).await.unwrap().unwrap()
}

/// Everything until the other side closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    timeout(GUARD, stream.read_to_end(&mut text)).await.unwrap().unwrap();
    String::from_utf8(text).unwrap()
}

pub(crate) fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: door\r\n\r\n")
}

pub(crate) async fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream.write_all(bytes.as_ref()).await.unwrap();
}

/// One answer with a content length, and no byte of the next.
pub(crate) async fn answer(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(timeout(GUARD, stream.read_u8()).await.unwrap().unwrap()));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    timeout(GUARD, stream.read_exact(&mut body)).await.unwrap().unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

pub(crate) async fn get(stream: &mut TcpStream, path: &str) -> String {
    send(stream, request(path)).await;
    answer(stream).await
}

/// Lets everybody in who gets a place.
pub(crate) fn open(mut door: FrontDoor) -> mpsc::UnboundedReceiver<Connection> {
    let (let_in, inside) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                connection = door.accept() => drop(let_in.send(connection)),
                () = let_in.closed() => return,
            }
        }
    });
    inside
}

pub(crate) async fn next(inside: &mut mpsc::UnboundedReceiver<Connection>) -> Connection {
    timeout(GUARD, inside.recv()).await.unwrap().unwrap()
}

/// A door that serves until this is dropped or told to stop.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) handle: DoorHandle,
    stop: oneshot::Sender<()>,
    report: JoinHandle<Report>,
}

impl Server {
    pub(crate) fn of(door: FrontDoor, app: Router, grace: Duration) -> Self {
        let (at, handle) = (door.local_addr().unwrap(), door.handle());
        let (stop, stopped) = oneshot::channel();
        let signal = async { drop(stopped.await) };
        let report = tokio::spawn(door.serve(app).with_graceful_shutdown(signal).grace(grace).into_future());
        Self { at, handle, stop, report }
    }

    pub(crate) fn abort(self) {
        self.report.abort();
    }

    /// Tells it to stop; the report comes when it has.
    pub(crate) fn stop(self) -> JoinHandle<Report> {
        drop(self.stop);
        self.report
    }
}
