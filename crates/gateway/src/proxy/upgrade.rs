//! Protocol upgrades, such as WebSocket.
//!
//! The request is sent on a connection of its own. If the server agrees, both connections are joined and bytes
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
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, StatusCode};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_listener::Connection;
use sluicegate_net::MaybeTlsStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::AccessRecord;
use super::forward::{build_outgoing, rewrite_path, set_address, take_body};
use sluicegate_engine::overload::Completion;

use crate::body::{IncomingBody, RequestGuard, ResponseBody};
use crate::client_context::ClientContext;
use crate::context::UpstreamTarget;
use crate::error::ProxyError;
use crate::head::{self, HeaderScan};
use crate::pool::{H1Connection, ResponseDeadline, SendError, UpstreamBody};
use crate::response::ProxyResponse;
use crate::timer::LazyTimer;
use crate::upstream::{Attempt, AttemptedServers};

/// Forwards an upgrade request.
pub(super) async fn forward(
    client: &Arc<ClientContext>,
    upstream_target: &UpstreamTarget,
    request: &mut Request<IncomingBody>,
    scan: HeaderScan,
    mut guard: RequestGuard,
    access_record: &mut Option<Box<AccessRecord>>,
) -> Result<Box<ProxyResponse>, ProxyError> {
    let gateway = &client.worker.gateway;
    let pool = &client.worker.pools[upstream_target.upstream];
    let upstream = pool.upstream();
    let name = || upstream_target.name.clone();
    let protocol = request.headers().get(UPGRADE).cloned();
    let target = rewrite_path(request.uri(), upstream_target.strip.as_deref());
    let body = take_body(client, request);
    let body_status = body.status();
    guard.track_request_body(body_status.as_ref());
    let mut outgoing = build_outgoing(client, request, scan, upstream, body);
    if let Some(protocol) = protocol {
        let headers = outgoing.request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    if let Some(record) = access_record {
        record.record_sent(&upstream_target.name, body_status.clone(), outgoing.request.headers_mut());
    }

    let attempt =
        upstream.pick(&AttemptedServers::default()).ok_or_else(|| ProxyError::NoHealthyServer { upstream: name() })?;
    let server = attempt.server();
    set_address(&mut outgoing.request, &target, upstream, server);
    if let Some(record) = access_record {
        record.record_attempt(server);
    }
    let mut timer = client.take_timer();
    let mut deadline =
        ResponseDeadline::new(gateway.clock.now(), upstream.settings().timeouts.response, body_status.clone());
    let sending = async {
        let mut connection = pool.connect(server, deadline.at(), &mut timer).await?;
        let response = connection.send(&mut outgoing, &mut deadline, &mut timer).await?;
        Ok::<_, SendError>((connection, response.status, response.head))
    };
    let (connection, status, mut head) = match sending.await {
        Ok(response) => response,
        Err(error) => {
            client.return_timer(timer);
            let error = error.attribute(&deadline);
            if error.counts_against_server() {
                attempt.failed();
                guard.record(Completion::Failed);
            }
            return Err(match error {
                SendError::NoPermit => ProxyError::AtCapacity,
                SendError::RequestAborted if body_status.is_some_and(|body_status| body_status.timed_out()) => {
                    ProxyError::ClientTooSlow
                }
                SendError::RequestAborted => ProxyError::BadRequest("the request body was aborted"),
                SendError::Connect { timed_out: true } | SendError::Timeout => {
                    ProxyError::UpstreamTimeout { upstream: name() }
                }
                SendError::Connect { timed_out: false } | SendError::NotSent => {
                    ProxyError::ConnectFailed { upstream: name() }
                }
                SendError::BadResponse => ProxyError::BadResponse { upstream: name() },
            });
        }
    };
    attempt.succeeded();
    let headers = head.map_mut();
    let protocol = headers.get(UPGRADE).cloned();
    head::strip_response_hop_by_hop(headers);
    if let Some(mut record) = access_record.take() {
        record.record_upstream_time();
        record.record_response(status, headers);
        guard.access_record = Some(record);
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        guard.record_response(status, headers);
        let body = UpstreamBody::from_h1(connection, Arc::clone(pool), attempt, timer);
        return Ok(ProxyResponse::new(status, head, ResponseBody::upstream(body, guard, Arc::clone(client))));
    }
    client.return_timer(timer);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    guard.leave_overload_gates(Completion::Ok);
    let idle_timeout = upstream.settings().timeouts.body;
    let tunnel = Tunnel { connection, guard, _attempt: attempt, clock: gateway.clock.clone(), idle_timeout };
    Ok(ProxyResponse::new(status, head, ResponseBody::Tunnel(Box::new(tunnel))))
}

/// A tunnel to a server that has agreed to switch protocols.
pub(crate) struct Tunnel {
    connection: Box<H1Connection>,
    guard: RequestGuard,
    _attempt: Attempt,
    clock: ClockHandle,
    /// Idle timeout of the tunnel.
    idle_timeout: Duration,
}

impl Tunnel {
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
