//! The way from one thread to the servers of one upstream: idle connections, and which server to try next.
//!
//! Each thread has its own lanes, so nobody waits for another thread's lock, and an answer is read by the
//! thread that asked.
//!
//! A request is tried on another server only where that is safe: if nothing of it can have been seen by
//! the first, or if it changes nothing ([`Method::is_idempotent`]) and has no body.

mod answer;
mod due;
mod link;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use parking_lot::Mutex;
use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http1::{Head, Wanted};

use crate::alarm::LazyAlarm;
use crate::body::RequestBody;
use crate::failure::Failure;
use crate::upstream::{Attempt, Server, Tried, Upstream};
use answer::From;
pub(crate) use answer::{AnswerError, ServerBody};
pub(crate) use due::Due;
pub(crate) use link::Link;
use shared::Shared;

/// How many idle connections to one server a thread keeps.
const MOST_IDLE: usize = 256;

/// The way to one upstream.
pub(crate) struct Lane {
    upstream: Arc<Upstream>,
    clock: ClockHandle,
    /// Idle connections by server, the last used last.
    #[expect(clippy::vec_box, reason = "they are large, and move in and out with every request")]
    idle: Vec<Mutex<Vec<Box<Link>>>>,
    /// Connections that carry many requests at once, by server.
    shared: Vec<Shared>,
}

/// A request on its way to a server.
pub(crate) struct Outgoing {
    pub(crate) request: Request<RequestBody>,
    /// Further lines of its head, each with its end. Where servers are spoken to in HTTP/2 there are none.
    pub(crate) lines: Bytes,
    /// What the headers of the answer are wanted for.
    pub(crate) wanted: Wanted,
}

/// An answer.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) head: Head,
    pub(crate) body: ServerBody,
}

/// A request that was not answered.
pub(crate) struct Unanswered {
    pub(crate) failure: Failure,
    pub(crate) alarm: LazyAlarm,
}

/// Why there is no answer.
pub(crate) enum Lost {
    /// Nothing of the request was sent.
    Unsent,
    /// Nothing of the request was sent, as no connection could be made.
    NoConnection {
        /// Whether that took too long.
        late: bool,
    },
    /// The server has all the connections it may have, and none became free in time.
    Full,
    /// The server was gone, or what it sent is no answer.
    Broken,
    /// It took too long.
    Late,
    /// The client did not send all of its request.
    Request,
}

impl Lost {
    /// The same, where it is known whose fault it is.
    pub(crate) fn blamed(self, due: &Due) -> Self {
        if matches!(self, Self::Broken | Self::Late) && due.is_clients_fault() { Self::Request } else { self }
    }

    /// Whether it counts against the server.
    pub(crate) const fn is_servers_fault(&self) -> bool {
        !matches!(self, Self::Full | Self::Request)
    }
}

impl Lane {
    pub(crate) fn new(upstream: Arc<Upstream>, clock: ClockHandle) -> Arc<Self> {
        let servers = upstream.servers().len();
        let idle = (0..servers).map(|_| Mutex::default()).collect();
        let shared = (0..servers).map(|_| Shared::default()).collect();
        Arc::new(Self { upstream, clock, idle, shared })
    }

    pub(crate) const fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    pub(super) fn patience_for_bodies(&self) -> Duration {
        self.upstream.settings().timeouts.body
    }

    /// Sends a request to one of the servers, or to another where the first fails and that is safe. Before each attempt
    /// it is addressed to its server.
    pub(crate) async fn send(
        self: &Arc<Self>,
        outgoing: &mut Outgoing,
        mut address: impl FnMut(&mut Request<RequestBody>, &Arc<Server>),
        mut alarm: LazyAlarm,
    ) -> Result<Answered, Unanswered> {
        let settings = self.upstream.settings();
        let upstream = || settings.name.clone();
        let request = &outgoing.request;
        let may_repeat = settings.retries > 0 && request.method().is_idempotent() && request.body().is_empty();
        let fate = request.body().fate();
        let mut tried = Tried::default();
        let mut failure = None;
        for _ in 0..=settings.retries {
            let Some(attempt) = self.upstream.pick(&tried) else { break };
            let server = attempt.server();
            tried.add(server);
            address(&mut outgoing.request, server);
            let mut due = Due::new(self.clock.now(), settings.timeouts.answer, fate.clone());
            let lost = match self.exchange(outgoing, may_repeat, &attempt, &mut due, &mut alarm).await {
                Ok((status, head, from)) => {
                    attempt.answered();
                    let body = ServerBody::new(from, Arc::clone(self), attempt, alarm);
                    return Ok(Answered { status, head, body });
                }
                Err(lost) => lost.blamed(&due),
            };
            if lost.is_servers_fault() {
                attempt.failed();
            }
            let (why, again) = match lost {
                Lost::Full => (Failure::Busy, false),
                Lost::Unsent | Lost::NoConnection { late: false } => {
                    (Failure::NoConnection { upstream: upstream() }, true)
                }
                Lost::NoConnection { late: true } => (Failure::Late { upstream: upstream() }, true),
                Lost::Broken => (Failure::BadAnswer { upstream: upstream() }, may_repeat),
                Lost::Late => (Failure::Late { upstream: upstream() }, false),
                Lost::Request => (Failure::Bad("the request's body broke off"), false),
            };
            failure = Some(why);
            if !again {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| Failure::NoServer { upstream: upstream() });
        Err(Unanswered { failure, alarm })
    }

    /// Sends a request to one server.
    async fn exchange(
        self: &Arc<Self>,
        outgoing: &mut Outgoing,
        may_repeat: bool,
        attempt: &Attempt,
        due: &mut Due,
        alarm: &mut LazyAlarm,
    ) -> Result<(StatusCode, Head, From), Lost> {
        let server = attempt.server();
        if self.upstream.settings().protocol == UpstreamProtocol::Http2 {
            // On the heap, here and below: what is rarely needed must not be moved about with every request.
            let request = &mut outgoing.request;
            let answer = Box::pin(self.shared[server.position()].send(server, request, may_repeat, due, alarm)).await?;
            let (head, body) = answer.into_parts();
            return Ok((head.status, head.headers.into(), From::Http2(body)));
        }
        // Connections that the server has closed are found one by one; there is no end of new ones.
        while let Some(mut link) = self.take_idle(server.position()) {
            match link.send(outgoing, due, alarm).await {
                Ok(answer) => return Ok((answer.status, answer.head, From::Link(link))),
                Err(Lost::Unsent) => {}
                // Probably the server closed it at that moment, which is nobody's fault. If it was the request that
                // did it, it must not end all the others too: the next try is on a new one.
                Err(Lost::Broken) if may_repeat => break,
                Err(lost) => return Err(lost),
            }
        }
        let mut link = Box::pin(self.connect(server, due.at(), alarm)).await?;
        let answer = link.send(outgoing, due, alarm).await?;
        Ok((answer.status, answer.head, From::Link(link)))
    }

    /// A new connection.
    pub(crate) async fn connect(
        &self,
        server: &Server,
        deadline: Timestamp,
        alarm: &mut LazyAlarm,
    ) -> Result<Box<Link>, Lost> {
        let Some(room) = alarm.within(deadline, server.wait_for_room()).await else { return Err(Lost::Full) };
        let connected = server.connect().await;
        let stream = connected.map_err(|error| Lost::NoConnection { late: error.is_timeout() })?;
        Ok(Link::new(stream, room, self.clock.now()))
    }

    fn take_idle(&self, server: usize) -> Option<Box<Link>> {
        self.idle[server].lock().pop()
    }

    /// Keeps a connection whose answer has been read.
    fn take_back(&self, server: usize, mut link: Box<Link>) {
        if link.is_wanted_elsewhere() || !link.is_ready() {
            // Somebody waits for its room, the request is still being sent, or the server wants no more.
            return;
        }
        link.used = self.clock.now();
        let mut idle = self.idle[server].lock();
        if idle.len() < MOST_IDLE {
            idle.push(link);
        }
    }

    /// Closes connections that have been idle for too long, or that the server has closed.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        for idle in &self.idle {
            let longest = self.upstream.settings().timeouts.idle;
            idle.lock()
                .retain_mut(|link| now < link.used + longest && !link.is_wanted_elsewhere() && link.is_still_ready());
        }
    }
}
