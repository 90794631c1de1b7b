//! Clients that never pause.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::program::until;
use crate::talk::Talk;

/// Clients that ask without a pause until told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    /// Some keep their connection as long as they are let, some make one for each request.
    pub(crate) fn on(at: SocketAddr) -> Self {
        Self::asking(at, |client| format!("GET /{client} HTTP/1.1\r\nHost: shop"))
    }

    /// The same with these heads, each as its client has it.
    pub(crate) fn asking(at: SocketAddr, head: fn(usize) -> String) -> Self {
        let (stop, done): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let client = |number: usize| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut failed = Vec::new();
                let mut kept: Option<Talk> = None;
                while !stop.load(Ordering::SeqCst) {
                    let mut talk = match kept.take() {
                        Some(talk) => talk,
                        None => match TcpStream::connect(at) {
                            Ok(stream) => Talk::over(stream),
                            Err(error) => {
                                failed.push(format!("client {number}: not connected: {error}"));
                                continue;
                            }
                        },
                    };
                    let keep = number.is_multiple_of(2);
                    let close = if keep { "" } else { "Connection: close\r\n" };
                    talk.send(format!("{}\r\n{close}\r\n", head(number)));
                    match talk.answer() {
                        Some((200, goes_on)) => kept = (keep && goes_on).then_some(talk),
                        other => failed.push(format!("client {number}: {other:?}")),
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    // As many as a busy machine can bear beside the other tests.
                    thread::sleep(Duration::from_millis(1));
                }
                failed
            })
        };
        let clients = (0..6).map(client).collect();
        Self { stop, done, clients }
    }

    /// Waits for so many more requests.
    pub(crate) fn go_on(&self, requests: usize) {
        let before = self.done.load(Ordering::SeqCst);
        until("requests go on", || self.done.load(Ordering::SeqCst) >= before + requests);
    }

    pub(crate) fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.done.load(Ordering::SeqCst), failed)
    }
}
