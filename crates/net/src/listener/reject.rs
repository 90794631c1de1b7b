//! Rejection of connections with a 503 and a lingering close.
//!
//! A rejected connection gets its response without its request being read, and lingers: see
//! [`LingeringClose`]. The number of lingering connections is bounded; beyond that the
//! response is written, bytes that have already arrived are read, and the socket is closed.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::connection::{AsyncSocket, LingeringClose};

/// Maximum number of rejected connections that linger at once.
pub(crate) const MAX_LINGERING_CONNECTIONS: usize = 256;

/// Maximum time a rejected client has to close its side.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes read from a rejected client.
const MAX_LINGER_BYTES: usize = 64 << 10;

const RESPONSE_503: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 38\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    \r\n\
    too many connections: try again later\n";

/// Response to a rejected connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RejectMode {
    /// `503 Service Unavailable` with `Retry-After: 1` as HTTP/1.1, then closed.
    #[default]
    Http503,
    /// Closed at once without a response. For other protocols, and for the least work.
    Close,
}

/// Sends responses to rejected connections and closes them.
pub(crate) struct Rejector {
    mode: RejectMode,
    clock: ClockHandle,
    lingering: JoinSet<()>,
}

impl Rejector {
    pub(crate) fn new(mode: RejectMode, clock: ClockHandle) -> Self {
        Self { mode, clock, lingering: JoinSet::new() }
    }

    pub(crate) const fn mode(&self) -> RejectMode {
        self.mode
    }

    /// Rejects a connection without waiting for it.
    pub(crate) fn reject(&mut self, stream: AsyncSocket) {
        if self.mode == RejectMode::Close {
            return;
        }
        while self.lingering.try_join_next().is_some() {}
        if self.lingering.len() < MAX_LINGERING_CONNECTIONS && Handle::try_current().is_ok() {
            let clock = self.clock.clone();
            self.lingering.spawn(async move {
                tokio::select! {
                    () = respond_and_linger(stream) => {}
                    () = clock.sleep(LINGER_TIMEOUT) => {}
                }
            });
        } else {
            respond_and_close(&stream);
        }
    }

    /// Resolves once all rejected connections are closed.
    pub(crate) async fn wait_all_closed(&mut self) {
        while self.lingering.join_next().await.is_some() {}
    }
}

impl Drop for Rejector {
    fn drop(&mut self) {
        // Lingering tasks end by themselves within the timeout.
        self.lingering.detach_all();
    }
}

/// Sends the response and waits until the client closes its side. Errors are ignored: the client is gone.
async fn respond_and_linger(mut stream: AsyncSocket) {
    if stream.write_all(RESPONSE_503).await.is_err() {
        return;
    }
    let mut linger = LingeringClose::new(MAX_LINGER_BYTES);
    poll_fn(|context| linger.poll(&mut stream, context)).await;
}

/// Sends the response and closes, without waiting.
fn respond_and_close(stream: &AsyncSocket) {
    let stream = stream.sock_ref();
    // The short response fits into the send buffer of a new socket.
    if stream.send(RESPONSE_503).is_err() || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut bytes = [MaybeUninit::uninit(); 1_024];
    for _ in 0..MAX_LINGER_BYTES / bytes.len() {
        if !matches!(stream.recv(&mut bytes), Ok(1..)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_of_the_503_is_correct() {
        let response = std::str::from_utf8(RESPONSE_503).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
