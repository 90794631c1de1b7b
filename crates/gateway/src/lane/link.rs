//! A connection to a server over HTTP/1, and the exchange on it.
//!
//! It is not a task of its own. Whoever waits for an answer drives the connection: the socket wakes the
//! client's task directly, which reads the answer and writes it on. A connection as a task of its own
//! would cost three more wake-ups for each request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sluicegate_engine::Timestamp;
use sluicegate_listen::Stream;
use tokio::net::TcpStream;

use super::Lost;
use super::waker::DriverWaker;
use crate::alarm::LazyAlarm;
use crate::body::RequestBody;
use crate::upstream::Room;

/// A connection that carries one request at a time.
pub(crate) struct Link {
    sender: http1::SendRequest<RequestBody>,
    /// Gone once it has ended: with it go requests that it has not looked at, back to who sent them.
    connection: Option<http1::Connection<TokioIo<Stream<TcpStream>>, RequestBody>>,
    /// What sockets and channels know it by, and whom that wakes.
    waker: Waker,
    driver: Arc<DriverWaker>,
    /// When it was last used.
    pub(super) used: Timestamp,
    /// Its place among the connections to the server.
    room: Room,
}

impl Link {
    /// Over a fresh connection.
    pub(super) async fn new(stream: Stream<TcpStream>, room: Room, used: Timestamp) -> Result<Box<Self>, hyper::Error> {
        let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
        let driver = Arc::<DriverWaker>::default();
        Ok(Box::new(Self {
            sender,
            connection: Some(connection),
            waker: Waker::from(Arc::clone(&driver)),
            driver,
            used,
            room,
        }))
    }

    /// Sends a request and waits for the head of the answer, until the deadline.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
        deadline: Timestamp,
        alarm: &mut LazyAlarm,
    ) -> Result<Response<Incoming>, Lost> {
        let Self { sender, connection, waker, driver, .. } = self;
        let mut answer = std::pin::pin!(sender.try_send_request(request));
        poll_fn(|context| {
            driver.drive(context.waker());
            poll_to_its_end(connection, &mut Context::from_waker(waker));
            // An answer comes only while the connection is polled, and it is looked for right after that: who is
            // polled already need not be woken.
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(answer)) => Poll::Ready(Ok(answer)),
                Poll::Ready(Err(mut error)) => Poll::Ready(Err(match error.take_message() {
                    Some(request) => Lost::Unsent(Box::new(request)),
                    None => Lost::Broken,
                })),
                Poll::Pending => alarm.poll_due(deadline, context).map(|()| Err(Lost::Late)),
            }
        })
        .await
    }

    /// The next part of an answer's body. Goes on with the connection if there is none yet.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Data comes only while the connection is polled, and is looked for right after that.
        let mut unwoken = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = self.driver.unheard(|| Pin::new(&mut *body).poll_frame(&mut unwoken)) {
            return Poll::Ready(frame);
        }
        self.driver.drive(context.waker());
        poll_to_its_end(&mut self.connection, &mut Context::from_waker(&self.waker));
        self.driver.unheard(|| Pin::new(body).poll_frame(&mut unwoken))
    }

    /// Whether somebody waits for its room.
    pub(super) fn is_wanted_elsewhere(&self) -> bool {
        self.room.is_wanted()
    }

    /// Whether it can carry another request, as far as is known. If the server has closed it meanwhile, sending
    /// will find out, and give the request back.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// The same, with a look at what the server has done meanwhile.
    pub(super) fn is_still_ready(&mut self) -> bool {
        poll_to_its_end(&mut self.connection, &mut Context::from_waker(&self.waker));
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Nobody drives it any more.
    pub(super) fn rest(&mut self, now: Timestamp) {
        self.driver.rest();
        self.used = now;
    }
}

/// Goes on with a connection, and drops it when it has ended. How it ended, answers and bodies tell.
fn poll_to_its_end<C: Future + Unpin>(connection: &mut Option<C>, context: &mut Context<'_>) {
    if let Some(open) = connection
        && Pin::new(open).poll(context).is_ready()
    {
        *connection = None;
    }
}
