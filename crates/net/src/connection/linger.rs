//! Lingering close: half-closes a connection and reads until the peer closes its side.
//!
//! Closing a socket with unread bytes resets the connection, and the peer may never see the last response. So its
//! write side is shut down first, and input is discarded until the peer has closed.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes per read. They are on the stack: a lingering connection has no buffer.
const READ_BYTES: usize = 8 << 10;

/// A connection that is being closed. The caller limits the time.
#[derive(Debug)]
pub struct LingeringClose {
    is_write_shut: bool,
    max_bytes: usize,
}

impl LingeringClose {
    /// Reads until the peer has closed, or has sent `max_bytes`.
    pub const fn new(max_bytes: usize) -> Self {
        Self { is_write_shut: false, max_bytes }
    }

    /// Ready once the connection can be closed, also because it is broken.
    pub fn poll<I: AsyncRead + AsyncWrite + Unpin>(&mut self, io: &mut I, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_write_shut {
            if ready!(Pin::new(&mut *io).poll_shutdown(context)).is_err() {
                return Poll::Ready(());
            }
            self.is_write_shut = true;
        }
        while self.max_bytes > 0 {
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut buffer = ReadBuf::uninit(&mut space);
            let read = ready!(Pin::new(&mut *io).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            self.max_bytes = self.max_bytes.saturating_sub(buffer.filled().len());
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn input_is_discarded_until_the_peer_closes_or_sends_too_much() {
        for is_closed in [true, false] {
            let (mut near, mut far) = tokio::io::duplex(1 << 20);
            let mut linger = LingeringClose::new(100_000);
            let mut context = Context::from_waker(Waker::noop());
            far.write_all(&[0; 60_000]).await.unwrap();
            assert!(linger.poll(&mut near, &mut context).is_pending());
            assert_eq!(far.read(&mut [0]).await.unwrap(), 0, "the write side is shut down first");
            match is_closed {
                true => drop(far),
                false => far.write_all(&[0; 40_000]).await.unwrap(),
            }
            assert!(linger.poll(&mut near, &mut context).is_ready());
        }
    }
}
