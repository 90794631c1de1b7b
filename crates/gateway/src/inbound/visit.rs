//! One client's connection.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Version};
use parking_lot::Mutex;
use sluicegate_door::{Connection, Host, Late, Resting};
use sluicegate_engine::Timestamp;
use sluicegate_http::Renderer;
use sluicegate_http1::{Malformed, ReadRequest, read_request};
use sluicegate_listen::Stream;
use tokio::sync::watch;

use super::answering::Sent;
use super::deadlines::{Awaited, Deadlines};
use super::dormitory::Sleeper;
use super::wire::{ClientWire, SharedBody, SharedWire};
use crate::alarm::LazyAlarm;
use crate::answer::Answer;
use crate::body::Upload;
use crate::client::{Client, ClientService};
use crate::exchange::{self, Begun, Tunnel};
use crate::failure::Failure;
use crate::neighbours::{Bearings, Neighbour};
use crate::thread::Thread;
use crate::turns::after_others;

/// With what connections of HTTP/2 begin.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much a client may send ahead of its answers before no more is read.
const MOST_AHEAD: usize = 64 << 10;

/// How long a client that is to be told something may go on sending what nobody reads. Whoever closes at once takes
/// the answer away from it.
const LINGER: Duration = Duration::from_secs(5);

/// A connection that is served.
pub(crate) struct Visit {
    pub(super) wire: SharedWire,
    pub(super) deadlines: Deadlines,
    pub(super) closing: watch::Receiver<()>,
    pub(super) host: Arc<Host>,
    pub(super) client: Arc<Client>,
    bearings: Bearings,
}

/// What the first bytes are.
enum First {
    Http1,
    Http2,
    /// There are none, and will not be.
    Gone,
}

/// What comes next on a busy connection.
#[expect(clippy::large_enum_variant, reason = "nearly always the large one, which is taken out at once")]
enum Next {
    Request(ReadRequest),
    Malformed(Malformed),
    /// Nothing for a while.
    Rests,
    Over,
}

/// What comes after a busy time.
enum After {
    Rest,
    /// The thread of this number, which is nearer to the client.
    Elsewhere(usize),
    /// Another protocol.
    Switched(Box<Tunnel>),
    Over,
}

/// What was asked, as far as it matters for how it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) is_head: bool,
    /// Whether the client knows HTTP/1.1, chunks for example.
    pub(super) is_1_1: bool,
    /// Whether another request may follow.
    pub(super) goes_on: bool,
    /// Whether the client wants trailers.
    pub(super) takes_trailers: bool,
}

impl Asked {
    fn of(read: &ReadRequest) -> Self {
        Self {
            is_head: *read.head.method() == Method::HEAD,
            is_1_1: read.head.version() == Version::HTTP_11,
            goes_on: read.goes_on,
            takes_trailers: read.takes_trailers,
        }
    }

    /// Something of which nothing is known, not even where it ends.
    const fn nothing() -> Self {
        Self { is_head: false, is_1_1: true, goes_on: false, takes_trailers: false }
    }
}

impl Visit {
    /// A client that connected at `since`.
    pub(crate) fn new(
        stream: Stream<Connection>,
        client: Arc<Client>,
        host: Arc<Host>,
        closing: watch::Receiver<()>,
        since: Timestamp,
    ) -> Self {
        let alarm = LazyAlarm::new(client.thread.shared.clock.clone());
        let deadlines = Deadlines::new(host.patience(), alarm, since);
        let wire = Arc::new(Mutex::new(ClientWire::new(stream)));
        Self { wire, deadlines, closing, host, client, bearings: Bearings::default() }
    }

    /// A client that has slept.
    pub(super) fn woken(sleeper: Sleeper, thread: &Arc<Thread>) -> io::Result<Self> {
        let Sleeper { connection, address, since, resting } = sleeper;
        let client = thread.client(SocketAddr::new(address, 0), false);
        let host = Arc::clone(resting.host());
        let stream = Stream::Plain(connection.wake()?);
        let mut visit = Self::new(stream, client, host, thread.guests.closing(), since);
        visit.deadlines.await_since(Awaited::Request, since);
        Ok(visit)
    }

    /// Goes to sleep, or gives itself back if it cannot. `None` also if it is broken: then it is over.
    fn lie_down(self) -> Option<Self> {
        let thread = Arc::clone(&self.client.thread);
        self.lie_down_at(thread.itself())
    }

    /// Moves to another thread, or gives itself back if it cannot. It sleeps there until its next request comes, which may
    /// be at once.
    fn move_to(self, number: usize) -> Option<Self> {
        let shared = Arc::clone(&self.client.thread.shared);
        let there = shared.neighbours.at(number);
        let stays = self.lie_down_at(there);
        if stays.is_none() {
            there.took_in();
        }
        stays
    }

    fn lie_down_at(self, thread: &Neighbour) -> Option<Self> {
        let Some(dormitory) = &thread.dormitory else { return Some(self) };
        // Over HTTP/2, the body of a request that was answered may be in somebody's hands for a moment longer.
        let is_sole = Arc::strong_count(&self.wire) == 1;
        if self.deadlines.is_closing() || !is_sole || !self.wire.lock().can_sleep() {
            return Some(self);
        }
        let Self { wire, deadlines, host, client, .. } = self;
        let connection = Arc::into_inner(wire)?.into_inner().sleep()?;
        let (address, since, resting) = (client.origin.address, deadlines.since(), host.rest());
        let sleepless = dormitory.take_in(Sleeper { connection, address, since, resting })?;
        Self::woken(sleepless, &client.thread).ok()
    }

    /// Serves it until it ends, takes too long, or the gateway stops.
    pub(crate) async fn serve(self, is_http2: Option<bool>) {
        if is_http2 == Some(true) {
            return Box::pin(self.speak_http2()).await;
        }
        self.go_on(is_http2.is_none(), None).await;
    }

    /// Serves on what has slept.
    pub(super) async fn serve_on(self) {
        let resting = self.host.rest();
        self.go_on(false, Some(resting)).await;
    }

    async fn go_on(mut self, mut may_be_http2: bool, mut resting: Option<Resting>) {
        let mut closing = self.closing.clone();
        let mut closes = Closes { changed: pin!(async move { drop(closing.changed().await) }), is_awaited: false };
        loop {
            match self.first_bytes(may_be_http2, &mut closes).await {
                First::Http1 => {}
                First::Http2 => return Box::pin(self.speak_http2()).await,
                First::Gone => return,
            }
            drop(resting.take());
            may_be_http2 = false;
            // On the heap, as all that is only there while requests are: a connection at rest is small.
            match Box::pin(self.busy(&mut closes)).await {
                After::Rest => {
                    let Some(awake) = self.lie_down() else { return };
                    self = awake;
                    self.wire.lock().bytes.rest();
                    resting = Some(self.host.rest());
                }
                After::Elsewhere(number) => {
                    let Some(stays) = self.move_to(number) else { return };
                    self = stays;
                }
                After::Switched(tunnel) => return Box::pin(self.go_on_in(tunnel)).await,
                After::Over => return self.wire.lock().leave(),
            }
        }
    }

    /// Waits for bytes, with nothing in hand.
    async fn first_bytes(&mut self, may_be_http2: bool, closes: &mut Closes<'_>) -> First {
        let Self { wire, deadlines, closing, host, .. } = self;
        poll_fn(|context| {
            closes.hear(closing, deadlines, context);
            let bytes = &mut wire.lock().bytes;
            loop {
                let compared = bytes.input.len().min(PREFACE.len());
                if !may_be_http2 && compared > 0 || bytes.input[..compared] != PREFACE[..compared] {
                    return Poll::Ready(First::Http1);
                }
                if compared == PREFACE.len() {
                    return Poll::Ready(First::Http2);
                }
                match bytes.poll_fill(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(First::Gone),
                    Poll::Pending => break,
                }
            }
            deadlines.poll_late(context).map(|late| {
                host.closed_late(late);
                First::Gone
            })
        })
        .await
    }

    async fn speak_http2(self) {
        let Some(wire) = Arc::into_inner(self.wire) else { return };
        let (stream, ahead) = wire.into_inner().bytes.into_parts();
        let service = ClientService(self.client);
        self.host.host_http2(stream, ahead.freeze(), service, self.closing, self.deadlines.is_closing()).await;
    }

    /// Goes on in another protocol.
    async fn go_on_in(self, tunnel: Box<Tunnel>) {
        let Some(wire) = Arc::into_inner(self.wire) else { return };
        let (stream, ahead) = wire.into_inner().bytes.into_parts();
        tunnel.join(stream, ahead).await;
    }

    /// Serves requests one after the other.
    async fn busy(&mut self, closes: &mut Closes<'_>) -> After {
        loop {
            let read = match self.next(closes).await {
                Next::Request(read) => read,
                Next::Malformed(malformed) => {
                    let failure = match malformed {
                        Malformed::TooLarge => Failure::TooLarge,
                        malformed => Failure::Bad(malformed.reason()),
                    };
                    self.answer(Answer::own(failure.render(), false), Asked::nothing()).await;
                    self.linger().await;
                    return After::Over;
                }
                Next::Rests => return After::Rest,
                Next::Over => return After::Over,
            };
            let _under_way = self.client.thread.tally.begin();
            let asked = Asked::of(&read);
            let mut body = Upload::Empty;
            let is_read = {
                let mut wire = self.wire.lock();
                wire.begin(read.framing, read.expects_continue);
                wire.is_read()
            };
            if !is_read {
                body = Upload::Http1(SharedBody::new(&self.wire));
            }
            let mut request = read.head.map(|()| body);
            let sent = match exchange::begin(&self.client, &mut request, Renderer::refuse_briefly) {
                Begun::Refused(refusal) => {
                    drop(request);
                    self.refuse(&refusal, asked).await
                }
                Begun::GoesOn(opening) => {
                    if opening.is_sent_on(&self.client) {
                        after_others().await;
                    }
                    let answer = {
                        let exchange = pin!(exchange::serve(Arc::clone(&self.client), &mut request, opening));
                        self.unless_gone(exchange).await
                    };
                    drop(request);
                    match answer {
                        Some(answer) => self.answer(answer, asked).await,
                        None => return After::Over,
                    }
                }
            };
            match sent {
                Sent::GoesOn => {
                    self.deadlines.await_now(Awaited::Request);
                    let thread = &self.client.thread;
                    let core = || self.wire.lock().core();
                    if let Some(nearer) = self.bearings.answered(&thread.shared.neighbours, thread.number, core) {
                        return After::Elsewhere(nearer);
                    }
                }
                Sent::Switched(tunnel) => return After::Switched(tunnel),
                Sent::Unread => {
                    self.linger().await;
                    return After::Over;
                }
                Sent::Over => return After::Over,
            }
        }
    }

    /// The next request, if there is one.
    async fn next(&mut self, closes: &mut Closes<'_>) -> Next {
        let Self { wire, deadlines, closing, host, client, .. } = self;
        let longest = client.thread.shared.longest_head;
        let mut seen = 0;
        poll_fn(|context| {
            closes.hear(closing, deadlines, context);
            let bytes = &mut wire.lock().bytes;
            loop {
                // A head that comes byte by byte is looked at when a line has ended, not each time from its beginning.
                let has_line = bytes.input[seen..].contains(&b'\n');
                seen = bytes.input.len();
                if has_line || seen >= longest {
                    match read_request(&mut bytes.input, longest) {
                        Ok(Some(read)) => return Poll::Ready(Next::Request(read)),
                        Ok(None) => {}
                        Err(malformed) => return Poll::Ready(Next::Malformed(malformed)),
                    }
                }
                if seen > 0 {
                    deadlines.head_begins();
                }
                // All that was said goes out before anything is awaited.
                let before = bytes.waiting();
                match bytes.poll_flush(context) {
                    Poll::Ready(Ok(())) => deadlines.reads(),
                    Poll::Ready(Err(_)) => return Poll::Ready(Next::Over),
                    Poll::Pending => {
                        if bytes.waiting() < before {
                            deadlines.reads();
                        }
                        return deadlines.poll_unread(context).map(|()| {
                            host.closed_late(Late::Reading);
                            Next::Over
                        });
                    }
                }
                match bytes.poll_fill(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(Next::Over),
                    Poll::Pending => break,
                }
            }
            if bytes.input.is_empty() && deadlines.poll_rest(host.rest_after(), context).is_ready() {
                return Poll::Ready(Next::Rests);
            }
            deadlines.poll_late(context).map(|late| {
                host.closed_late(late);
                Next::Over
            })
        })
        .await
    }

    /// What an exchange comes to; `None` if its client has gone. It is pinned by the caller: it is large to move about.
    async fn unless_gone<T>(&mut self, mut exchange: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|context| match exchange.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_gone(context).map(|()| None),
        })
        .await
    }

    /// Ready when the client has gone, or does not read what it was sent before. While its request is still to be
    /// read, whoever reads that will find out; after that, it is found out here.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { wire, deadlines, host, .. } = self;
        let mut wire = wire.lock();
        if !wire.bytes.is_flushed() {
            match wire.bytes.poll_flush(context) {
                Poll::Ready(Ok(())) => deadlines.reads(),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {
                    if deadlines.poll_unread(context).is_ready() {
                        host.closed_late(Late::Reading);
                        return Poll::Ready(());
                    }
                }
            }
        }
        if !wire.is_read() {
            wire.wake_when_read(context);
        }
        while wire.is_read() && wire.bytes.input.len() < MOST_AHEAD {
            match wire.bytes.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    /// Says that nothing more comes, and waits until the client has understood.
    async fn linger(&mut self) {
        let Self { wire, deadlines, .. } = self;
        let since = deadlines.now();
        let mut is_shut = false;
        poll_fn(|context| {
            let bytes = &mut wire.lock().bytes;
            if !is_shut {
                match bytes.poll_shutdown(context) {
                    Poll::Ready(Ok(())) => is_shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return deadlines.poll_after(since, LINGER, context),
                }
            }
            loop {
                match bytes.poll_discard(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return deadlines.poll_after(since, LINGER, context),
                }
            }
        })
        .await;
    }
}

/// How a connection hears that the gateway stops.
struct Closes<'a> {
    changed: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// Whether the connection's task is woken when that happens. Being told so once is enough, as it is one task for
    /// all of its life.
    is_awaited: bool,
}

impl Closes<'_> {
    /// Listens whether the gateway stops.
    fn hear(&mut self, closing: &watch::Receiver<()>, deadlines: &mut Deadlines, context: &mut Context<'_>) {
        if deadlines.is_closing() {
            return;
        }
        let has_changed = closing.has_changed().unwrap_or(true);
        if has_changed
            || (!std::mem::replace(&mut self.is_awaited, true) && self.changed.as_mut().poll(context).is_ready())
        {
            deadlines.close();
        }
    }
}
