//! Tunnel after a protocol upgrade, such as WebSocket.
//!
//! The request is forwarded on a connection of its own. If the server agrees, both connections are joined and bytes
//! are relayed until one side closes or nothing is transferred for too long. The request's permits are held
//! until then.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::{Connection, LazyTimer, MaybeTlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::ResponseGuard;
use crate::pool::H1Connection;
use crate::upstream::{Attempt, Upstream};

/// A tunnel to a server that has agreed to switch protocols.
pub(crate) struct Tunnel {
    connection: Box<H1Connection>,
    guard: ResponseGuard,
    _attempt: Attempt,
    clock: ClockHandle,
    /// Idle timeout of the tunnel.
    idle_timeout: Duration,
}

impl Tunnel {
    pub(crate) fn new(
        connection: Box<H1Connection>,
        attempt: Attempt,
        guard: ResponseGuard,
        upstream: &Upstream,
        clock: &ClockHandle,
    ) -> Self {
        let idle_timeout = upstream.settings().timeouts.body;
        Self { connection, guard, _attempt: attempt, clock: clock.clone(), idle_timeout }
    }

    /// Relays between the tunnel and the client's connection until the end. `read_ahead` holds bytes already read
    /// from the client.
    pub(crate) async fn relay(self, client: MaybeTlsStream<Connection>, read_ahead: BytesMut) {
        let Self { connection, mut guard, clock, idle_timeout, .. } = self;
        let (server, server_read_ahead, _permit) = connection.into_parts();
        let mut timer = LazyTimer::new(clock.clone());
        let transferred = Arc::new(AtomicU64::new(0));
        let mut client = TunnelEnd { io: client, read_ahead, transferred: Arc::clone(&transferred) };
        let mut server = TunnelEnd { io: server, read_ahead: server_read_ahead, transferred: Arc::clone(&transferred) };
        let mut copying = pin!(copy_bidirectional(&mut client, &mut server));
        let (mut last_transferred, mut since) = (0, clock.now());
        poll_fn(|context| {
            if copying.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let now_transferred = transferred.load(Ordering::Relaxed);
            if now_transferred != last_transferred {
                (last_transferred, since) = (now_transferred, clock.now());
            }
            timer.poll_due(since + idle_timeout, context)
        })
        .await;
        if let Some(record) = &mut guard.access_record {
            record.add_response_bytes(usize::try_from(transferred.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
            record.record_complete();
        }
    }
}

/// One end of a tunnel. Counts the bytes read from it; read-ahead bytes come first.
struct TunnelEnd<I> {
    io: I,
    read_ahead: BytesMut,
    transferred: Arc<AtomicU64>,
}

impl<I: AsyncRead + Unpin> AsyncRead for TunnelEnd<I> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = if self.read_ahead.is_empty() {
            Pin::new(&mut self.io).poll_read(context, buf)
        } else {
            let part = self.read_ahead.len().min(buf.remaining());
            buf.put_slice(&self.read_ahead[..part]);
            self.read_ahead.advance(part);
            Poll::Ready(Ok(()))
        };
        self.transferred.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for TunnelEnd<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
