//! Closed-loop load for restart tests.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::program::wait_until;
use super::raw_http::RawHttp;

/// Clients that send requests without a pause until stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Starts clients with persistent connections and clients with a new connection per request.
    pub(crate) fn on(at: SocketAddr) -> Self {
        Self::with_requests(at, |client| format!("GET /{client} HTTP/1.1\r\nHost: shop"))
    }

    /// The same with a request head per client.
    pub(crate) fn with_requests(at: SocketAddr, head: fn(usize) -> String) -> Self {
        let (stop, done): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let client = |number: usize| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut failed = Vec::new();
                let mut reused: Option<RawHttp> = None;
                while !stop.load(Ordering::SeqCst) {
                    let mut connection = match reused.take() {
                        Some(connection) => connection,
                        None => match TcpStream::connect(at) {
                            Ok(stream) => RawHttp::over(stream),
                            Err(error) => {
                                failed.push(format!("client {number}: not connected: {error}"));
                                continue;
                            }
                        },
                    };
                    let keep = number.is_multiple_of(2);
                    let close = if keep { "" } else { "Connection: close\r\n" };
                    connection.send(format!("{}\r\n{close}\r\n", head(number)));
                    match connection.read_response() {
                        Some((200, goes_on)) => reused = (keep && goes_on).then_some(connection),
                        other => failed.push(format!("client {number}: {other:?}")),
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    // Limits the load next to the other tests on a busy machine.
                    thread::sleep(Duration::from_millis(1));
                }
                failed
            })
        };
        let clients = (0..6).map(client).collect();
        Self { stop, done, clients }
    }

    /// Waits for this many more requests.
    pub(crate) fn wait_for_requests(&self, requests: usize) {
        let before = self.done.load(Ordering::SeqCst);
        wait_until("requests continue", || self.done.load(Ordering::SeqCst) >= before + requests);
    }

    pub(crate) fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.done.load(Ordering::SeqCst), failed)
    }
}
