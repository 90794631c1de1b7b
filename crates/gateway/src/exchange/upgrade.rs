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

use bytes::{Buf, BytesMut};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, StatusCode};
use sluicegate_door::Connection;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_listen::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::Journal;
use super::forward::{address, outgoing, taken_body, target};
use sluicegate_engine::gate::Ending;

use crate::alarm::LazyAlarm;
use crate::answer::Answer;
use crate::body::{AnswerBody, Held, Upload};
use crate::client::Client;
use crate::failure::Failure;
use crate::head::{self, Survey};
use crate::lane::{Due, Link, Lost, ServerBody};
use crate::shared::Way;
use crate::upstream::{Attempt, Tried};

/// Sends on a request for another protocol.
pub(super) async fn forward(
    client: &Arc<Client>,
    way: &Way,
    request: &mut Request<Upload>,
    survey: Survey,
    mut held: Held,
    journal: &mut Option<Box<Journal>>,
) -> Result<Box<Answer>, Failure> {
    let shared = &client.thread.shared;
    let lane = &client.thread.lanes[way.upstream];
    let upstream = lane.upstream();
    let name = || way.name.clone();
    let protocol = request.headers().get(UPGRADE).cloned();
    let target = target(request.uri(), way.strip.as_deref());
    let body = taken_body(client, request);
    let fate = body.fate();
    held.sends(fate.as_ref());
    let mut outgoing = outgoing(client, request, survey, upstream, body);
    if let Some(protocol) = protocol {
        let headers = outgoing.request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    if let Some(journal) = journal {
        journal.sent(&way.name, fate.clone(), outgoing.request.headers_mut());
    }

    let attempt = upstream.pick(&Tried::default()).ok_or_else(|| Failure::NoServer { upstream: name() })?;
    let server = attempt.server();
    address(&mut outgoing.request, &target, upstream, server);
    if let Some(journal) = journal {
        journal.tries(server);
    }
    let mut alarm = client.alarm();
    let mut due = Due::new(shared.clock.now(), upstream.settings().timeouts.answer, fate.clone());
    let sent = async {
        let mut link = lane.connect(server, due.at(), &mut alarm).await?;
        let answer = link.send(&mut outgoing, &mut due, &mut alarm).await?;
        Ok::<_, Lost>((link, answer.status, answer.head))
    };
    let (link, status, mut head) = match sent.await {
        Ok(answered) => answered,
        Err(lost) => {
            client.keep_alarm(alarm);
            let lost = lost.blamed(&due);
            if lost.is_servers_fault() {
                attempt.failed();
                held.note(Ending::Failed);
            }
            return Err(match lost {
                Lost::Full => Failure::Busy,
                Lost::Request if fate.is_some_and(|fate| fate.is_slow()) => Failure::Slow,
                Lost::Request => Failure::Bad("the request's body broke off"),
                Lost::NoConnection { late: true } | Lost::Late => Failure::Late { upstream: name() },
                Lost::NoConnection { late: false } | Lost::Unsent => Failure::NoConnection { upstream: name() },
                Lost::Broken => Failure::BadAnswer { upstream: name() },
            });
        }
    };
    attempt.answered();
    let headers = head.map_mut();
    let protocol = headers.get(UPGRADE).cloned();
    head::strip_answer(headers);
    if let Some(mut journal) = journal.take() {
        journal.answered();
        journal.head(status, headers);
        held.journal = Some(journal);
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        held.answered(status, headers);
        let body = ServerBody::of_link(link, Arc::clone(lane), attempt, alarm);
        return Ok(Answer::new(status, head, AnswerBody::server(body, held, Arc::clone(client))));
    }
    client.keep_alarm(alarm);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    held.leave_gates(Ending::Well);
    let longest = upstream.settings().timeouts.body;
    let tunnel = Tunnel { link, held, _attempt: attempt, clock: shared.clock.clone(), longest };
    Ok(Answer::new(status, head, AnswerBody::Tunnel(Box::new(tunnel))))
}

/// The way to a server that has agreed to go on in another protocol.
pub(crate) struct Tunnel {
    link: Box<Link>,
    held: Held,
    _attempt: Attempt,
    clock: ClockHandle,
    /// How long nothing may pass.
    longest: Duration,
}

impl Tunnel {
    /// Joins it to the client's connection, of which `ahead` was read already, until the end.
    pub(crate) async fn join(self, client: Stream<Connection>, ahead: BytesMut) {
        let Self { link, mut held, clock, longest, .. } = self;
        let (server, said, _room) = link.into_parts();
        let mut alarm = LazyAlarm::new(clock.clone());
        let moved = Arc::new(AtomicU64::new(0));
        let mut client = Side { io: client, ahead, moved: Arc::clone(&moved) };
        let mut server = Side { io: server, ahead: said, moved: Arc::clone(&moved) };
        let mut copying = pin!(copy_bidirectional(&mut client, &mut server));
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
        if let Some(journal) = &mut held.journal {
            journal.passed(usize::try_from(moved.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
            journal.ended();
        }
    }
}

/// One side of a tunnel, whose bytes are counted as they come; first those that were read ahead.
struct Side<I> {
    io: I,
    ahead: BytesMut,
    moved: Arc<AtomicU64>,
}

impl<I: AsyncRead + Unpin> AsyncRead for Side<I> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = if self.ahead.is_empty() {
            Pin::new(&mut self.io).poll_read(context, buf)
        } else {
            let part = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..part]);
            self.ahead.advance(part);
            Poll::Ready(Ok(()))
        };
        self.moved.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Side<I> {
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
