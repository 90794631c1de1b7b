//! How a connection is told that there is no place for it.
//!
//! Closing a socket that has unread bytes resets the connection, and the client may never see what was
//! written before. So a refused connection is answered without looking at its request, half closed, and read
//! for a moment until the client has closed its side too. How many are read at once is bounded; beyond that
//! the answer is written, what has already arrived is read, and the socket is closed.

use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::socket::Socket;

/// How many refused connections are seen off at once.
pub(crate) const MOST_LINGERING: usize = 256;

/// How long a refused client has to close its side.
const LINGER: Duration = Duration::from_secs(1);

/// How much of what a refused client sends is read.
const LINGER_BYTES: usize = 64 << 10;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 30\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    \r\n\
    no place here now: come again\n";

/// What a refused connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Refusal {
    /// `503 Service Unavailable` with `Retry-After: 1`, in the words of HTTP/1.1; then closed.
    #[default]
    Http503,
    /// Nothing: closed at once. For protocols that begin otherwise, and for the least work.
    Close,
}

/// Sees refused connections off.
pub(crate) struct Porter {
    refusal: Refusal,
    clock: ClockHandle,
    lingering: JoinSet<()>,
}

impl Porter {
    pub(crate) fn new(refusal: Refusal, clock: ClockHandle) -> Self {
        Self { refusal, clock, lingering: JoinSet::new() }
    }

    pub(crate) const fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// Refuses a connection, without waiting for it.
    pub(crate) fn refuse(&mut self, stream: Socket) {
        if self.refusal == Refusal::Close {
            return;
        }
        while self.lingering.try_join_next().is_some() {}
        if self.lingering.len() < MOST_LINGERING && Handle::try_current().is_ok() {
            let clock = self.clock.clone();
            self.lingering.spawn(async move {
                tokio::select! {
                    () = see_off(stream) => {}
                    () = clock.sleep(LINGER) => {}
                }
            });
        } else {
            turn_away(&stream);
        }
    }

    /// Resolves once all refused connections are closed.
    pub(crate) async fn all_gone(&mut self) {
        while self.lingering.join_next().await.is_some() {}
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        // They end by themselves, soon.
        self.lingering.detach_all();
    }
}

/// Answers and waits until the other side is closed. Whatever fails, there is nobody left to tell.
async fn see_off(mut stream: Socket) {
    if stream.write_all(ANSWER).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut unread = LINGER_BYTES;
    let mut bytes = [0; 1_024];
    while unread > 0 {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(read) => unread = unread.saturating_sub(read),
        }
    }
}

/// The same without waiting for anything.
fn turn_away(stream: &Socket) {
    let stream = stream.as_it_is();
    // An answer this short fits into the buffer of a fresh socket.
    if stream.send(ANSWER).is_err() || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut bytes = [MaybeUninit::uninit(); 1_024];
    for _ in 0..LINGER_BYTES / bytes.len() {
        if !matches!(stream.recv(&mut bytes), Ok(1..)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_how_long_it_is() {
        let answer = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
