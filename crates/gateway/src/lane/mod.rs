//! The way from one thread to the servers of one upstream: idle connections, and which server to try next.
//!
//! Each thread has its own lanes, so nobody waits for another thread's lock, and an answer is read by the
//! thread that asked.
//!
//! A request is tried on another server only where that is safe: if nothing of it can have been seen by
//! the first, or if it changes nothing ([`Method::is_idempotent`]) and has no body.

mod answer;
mod link;
mod shared;
mod waker;

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use parking_lot::Mutex;
use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

use crate::alarm::LazyAlarm;
use crate::body::RequestBody;
use crate::failure::Failure;
use crate::upstream::{Attempt, Room, Server, Tried, Upstream};
pub(crate) use answer::{AnswerError, ServerBody};
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

/// An answer, by whom, and after how many attempts.
pub(crate) type Answered = (Response<ServerBody>, Arc<Server>, u32);

/// A request that was not answered.
pub(crate) struct Unanswered {
    pub(crate) failure: Failure,
    /// The server that was tried last, and after how many attempts.
    pub(crate) last: Option<(Arc<Server>, u32)>,
    pub(crate) alarm: LazyAlarm,
}

/// Why there is no answer.
pub(crate) enum Lost {
    /// Nothing of the request was sent.
    Unsent(Box<Request<RequestBody>>),
    /// Nothing of the request was sent, as no connection could be made.
    NoConnection {
        request: Box<Request<RequestBody>>,
        /// Whether that took too long.
        late: bool,
    },
    /// The server has all the connections it may have, and none became free in time.
    Full,
    /// The server was gone, or what it sent is no answer.
    Broken,
    /// It took too long.
    Late,
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

    /// Sends a request to one of the servers, or to another where the first fails and that is safe.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut outgoing: Request<RequestBody>,
        address: impl Fn(&mut Request<RequestBody>, &Server),
        mut alarm: LazyAlarm,
    ) -> Result<Answered, Unanswered> {
        let settings = self.upstream.settings();
        let upstream = || settings.name.clone();
        let may_repeat = settings.retries > 0 && outgoing.method().is_idempotent() && outgoing.body().is_empty();
        let mut tried = Tried::default();
        let mut failure = Failure::NoServer { upstream: upstream() };
        let mut last = None;
        for attempts in 1..=settings.retries.saturating_add(1) {
            let Some(attempt) = self.upstream.pick(&tried) else { break };
            let server = attempt.server();
            tried.add(server);
            last = Some((Arc::clone(server), attempts));
            address(&mut outgoing, server);
            // A copy is only made where it can be of use.
            let now = self.clock.now();
            let copy = (may_repeat && self.may_need_copy(server)).then(|| copy_of(&outgoing));
            let deadline = now + settings.timeouts.answer;
            let lost = match self.exchange(outgoing, copy.as_ref(), &attempt, deadline, &mut alarm).await {
                Ok((answer, link)) => {
                    attempt.answered();
                    let (lane, server) = (Arc::clone(self), Arc::clone(server));
                    let answer = answer.map(|body| ServerBody::new(body, link, lane, attempt, alarm));
                    return Ok((answer, server, attempts));
                }
                Err(lost) => lost,
            };
            if !matches!(lost, Lost::Full) {
                attempt.failed();
            }
            let repeat = match lost {
                Lost::Full => {
                    failure = Failure::Busy;
                    None
                }
                Lost::Unsent(request) | Lost::NoConnection { request, late: false } => {
                    failure = Failure::NoConnection { upstream: upstream() };
                    Some(*request)
                }
                Lost::NoConnection { request, late: true } => {
                    failure = Failure::Late { upstream: upstream() };
                    Some(*request)
                }
                Lost::Broken => {
                    failure = Failure::BadAnswer { upstream: upstream() };
                    copy
                }
                Lost::Late => {
                    failure = Failure::Late { upstream: upstream() };
                    None
                }
            };
            match repeat {
                Some(request) => outgoing = request,
                None => break,
            }
        }
        Err(Unanswered { failure, last, alarm })
    }

    /// Sends a request to one server.
    async fn exchange(
        self: &Arc<Self>,
        request: Request<RequestBody>,
        copy: Option<&Request<RequestBody>>,
        attempt: &Attempt,
        deadline: Timestamp,
        alarm: &mut LazyAlarm,
    ) -> Result<(Response<hyper::body::Incoming>, Option<Box<Link>>), Lost> {
        let server = attempt.server();
        if self.upstream.settings().protocol == UpstreamProtocol::Http2 {
            // On the heap, here and below: what is rarely needed must not be moved about with every request.
            let answer = Box::pin(self.shared[server.position()].send(server, request, deadline, alarm)).await?;
            return Ok((answer, None));
        }
        let mut request = request;
        // Connections that the server has closed are found one by one; there is no end of new ones.
        while let Some(mut link) = self.take_idle(server.position()) {
            match link.send(request, deadline, alarm).await {
                Ok(answer) => return Ok((answer, Some(link))),
                Err(Lost::Unsent(unsent)) => request = *unsent,
                // Probably the server closed it at that moment, which is nobody's fault. If it was the request that
                // did it, it must not end all the others too: the next try is on a new one.
                Err(Lost::Broken) => match copy {
                    Some(copy) => {
                        request = copy_of(copy);
                        break;
                    }
                    None => return Err(Lost::Broken),
                },
                Err(lost) => return Err(lost),
            }
        }
        let room = Box::pin(alarm.within(deadline, server.wait_for_room())).await;
        let Some(room) = room else { return Err(Lost::Full) };
        let mut link = match Box::pin(self.connect(server, room)).await {
            Ok(link) => link,
            Err(late) => return Err(Lost::NoConnection { request: Box::new(request), late }),
        };
        let answer = link.send(request, deadline, alarm).await?;
        Ok((answer, Some(link)))
    }

    /// Connects, or tells whether it was a matter of time that it did not.
    async fn connect(&self, server: &Server, room: Room) -> Result<Box<Link>, bool> {
        let stream = server.connect().await.map_err(|error| error.is_timeout())?;
        Link::new(stream, room, self.clock.now()).await.map_err(|_| false)
    }

    fn take_idle(&self, server: usize) -> Option<Box<Link>> {
        loop {
            let link = self.idle[server].lock().pop()?;
            if link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Keeps a connection whose answer has been read.
    fn take_back(&self, server: usize, mut link: Box<Link>) {
        link.rest(self.clock.now());
        if link.is_wanted_elsewhere() || !(link.is_ready() || link.is_still_ready()) {
            // Somebody waits for its room, the request is still being sent, or the server wants no more.
            return;
        }
        let mut idle = self.idle[server].lock();
        if idle.len() < MOST_IDLE {
            idle.push(link);
        }
    }

    /// Whether a request that is lost on its way can be sent once more: there is another server to try, or a kept
    /// connection, which the server may close at any moment, however lately it was used.
    fn may_need_copy(&self, server: &Server) -> bool {
        self.upstream.servers().len() > 1 || !self.idle[server.position()].lock().is_empty()
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

/// A request that has no body once more.
fn copy_of(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut copy = Request::new(RequestBody::Empty);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}
