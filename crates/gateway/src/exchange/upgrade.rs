//! Requests that go on in another protocol, such as WebSocket.
//!
//! The request is sent on a connection of its own. If the server agrees, both sides are joined, and bytes
//! pass as they are until one of them ends it or nothing passes for too long. What the request holds, its
//! permits and its turn, it holds that long.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use sluicegate_engine::clock::ClockHandle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::Journal;
use super::forward::{address, cleaned, outgoing, target};
use crate::alarm::LazyAlarm;
use crate::body::{AnswerBody, Held, RequestBody};
use crate::client::Client;
use crate::failure::Failure;
use crate::head::{self, Survey};
use crate::lane::ServerBody;
use crate::shared::Way;
use crate::upstream::{Attempt, Room, Tried};

/// Sends on a request for another protocol.
pub(super) async fn forward(
    client: &Arc<Client>,
    way: &Way,
    mut request: Request<Incoming>,
    survey: Survey,
    mut held: Held,
    journal: &mut Option<Box<Journal>>,
) -> Result<Response<AnswerBody>, Failure> {
    let shared = &client.thread.shared;
    let lane = &client.thread.lanes[way.upstream];
    let upstream = lane.upstream();
    let name = || way.name.clone();
    let ours = hyper::upgrade::on(&mut request);
    let (mut parts, body) = request.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    let target = target(&parts.uri, way.strip.as_deref());
    let host = cleaned(&mut parts, survey, client, upstream);
    if let Some(protocol) = protocol {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, protocol);
    }
    let body = RequestBody::new(body, shared.timeouts.request_body, &shared.clock);
    let fate = body.fate();
    let mut outgoing = outgoing(parts, host, body);
    if let Some(journal) = journal {
        journal.sent(&way.name, fate.clone());
    }

    let attempt = upstream.pick(&Tried::default()).ok_or_else(|| Failure::NoServer { upstream: name() })?;
    let server = attempt.server();
    address(&mut outgoing, &target, upstream, server);
    let mut alarm = client.alarm();
    let deadline = shared.clock.now() + upstream.settings().timeouts.answer;
    let room = alarm.within(deadline, server.wait_for_room()).await.ok_or(Failure::Busy)?;
    let stream = match server.connect().await {
        Ok(stream) => stream,
        Err(error) => {
            attempt.failed();
            let upstream = name();
            return Err(if error.is_timeout() {
                Failure::Late { upstream }
            } else {
                Failure::NoConnection { upstream }
            });
        }
    };
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| Failure::NoConnection { upstream: name() })?;
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let mut answer = match alarm.within(deadline, sender.send_request(outgoing)).await {
        Some(Ok(answer)) => answer,
        fared => {
            attempt.failed();
            client.keep_alarm(alarm);
            return Err(match fared {
                None => Failure::Late { upstream: name() },
                Some(_) => Failure::BadAnswer { upstream: name() },
            });
        }
    };
    attempt.answered();
    if let Some(mut journal) = journal.take() {
        journal.answered_by(Arc::clone(server), 1);
        journal.head(answer.status(), answer.headers_mut());
        held.journal = Some(journal);
    }
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (mut parts, body) = answer.into_parts();
        head::strip(&mut parts.headers);
        parts.version = Version::default();
        held.answered(&parts.headers, fate);
        let body = ServerBody::detached(body, Arc::clone(lane), attempt, alarm);
        return Ok(Response::from_parts(parts, AnswerBody::server(body, held, Arc::clone(client))));
    }
    client.keep_alarm(alarm);
    let theirs = hyper::upgrade::on(&mut answer);
    let (mut parts, _) = answer.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    head::strip(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    let longest = upstream.settings().timeouts.body;
    client.thread.tunnel(tunnel(ours, theirs, shared.clock.clone(), longest, (held, attempt, room)));
    Ok(Response::from_parts(parts, AnswerBody::Own(None)))
}

/// Joins both sides once both are ready, until the end.
async fn tunnel(
    ours: OnUpgrade,
    theirs: OnUpgrade,
    clock: ClockHandle,
    longest: Duration,
    held: (Held, Attempt, Room),
) {
    let mut alarm = LazyAlarm::new(clock.clone());
    let moved = Arc::new(AtomicU64::new(0));
    let both = async { tokio::join!(ours, theirs) };
    if let Some((Ok(ours), Ok(theirs))) = alarm.within(clock.now() + longest, both).await {
        let mut ours = Noted { io: TokioIo::new(ours), moved: Arc::clone(&moved) };
        let mut theirs = Noted { io: TokioIo::new(theirs), moved: Arc::clone(&moved) };
        let mut copying = pin!(copy_bidirectional(&mut ours, &mut theirs));
        let (mut seen, mut since) = (0, clock.now());
        poll_fn(|context| {
            if copying.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let now_moved = moved.load(Ordering::Relaxed);
            if now_moved != seen {
                (seen, since) = (now_moved, clock.now());
            }
            alarm.poll_due(since + longest, context)
        })
        .await;
    }
    let (mut request, ..) = held;
    if let Some(journal) = &mut request.journal {
        journal.passed(usize::try_from(moved.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
        journal.ended();
    }
}

/// One side of a tunnel, whose bytes are counted as they come.
struct Noted {
    io: TokioIo<Upgraded>,
    moved: Arc<AtomicU64>,
}

impl AsyncRead for Noted {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buf);
        self.moved.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Noted {
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
