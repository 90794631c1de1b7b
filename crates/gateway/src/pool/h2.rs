//! HTTP/2 connection to a server, shared by many requests.

use std::future::poll_fn;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use sluicegate_net::LazyTimer;

use super::{ResponseDeadline, SendError};
use crate::request_body::RequestBody;
use crate::upstream::Server;

/// The HTTP/2 connection of one worker to a server.
#[derive(Default)]
pub(super) struct H2Connection {
    current: Mutex<Option<H2Sender>>,
    /// Held while connecting, so that other requests wait for that connection instead of opening their own. Counts
    /// the connections made.
    connecting: tokio::sync::Mutex<u64>,
    connect_failures: Mutex<ConnectFailures>,
}

/// Sender of an established connection.
#[derive(Clone)]
struct H2Sender {
    /// Sequence number of the connection.
    id: u64,
    sender: http2::SendRequest<RequestBody>,
}

/// Failed connection attempts.
#[derive(Clone, Copy, Default)]
struct ConnectFailures {
    count: u64,
    /// Set if the last one timed out.
    timed_out: bool,
}

impl H2Connection {
    /// Sends a request. If `may_retry` is set, it has no body, and is sent again if a reused connection ends.
    pub(super) async fn send(
        &self,
        server: &Server,
        request: &mut Request<RequestBody>,
        may_retry: bool,
        deadline: &mut ResponseDeadline,
        timer: &mut LazyTimer,
    ) -> Result<Response<Incoming>, SendError> {
        let mut error = SendError::NotSent;
        // The second attempt uses a new connection.
        for _ in 0..2 {
            let connection = self.acquire(server).await.map_err(|timed_out| SendError::Connect { timed_out })?;
            let (H2Sender { id, mut sender }, is_kept) = connection;
            let mut response = std::pin::pin!(sender.try_send_request(take_or_copy(request)));
            let sending = poll_fn(|context| match response.as_mut().poll(context) {
                Poll::Ready(result) => Poll::Ready(Ok(result)),
                Poll::Pending => deadline.poll_expired(timer, context).map(|()| Err(SendError::Timeout)),
            });
            match sending.await? {
                Ok(response) => return Ok(response),
                Err(mut rejected) => {
                    match rejected.take_message() {
                        Some(unsent) => *request = unsent,
                        // Probably the server closed it at that moment, which is not a failure.
                        None if may_retry && is_kept => error = SendError::BadResponse,
                        None => return Err(SendError::BadResponse),
                    }
                    self.discard(id);
                }
            }
        }
        Err(error)
    }

    /// The current connection or a new one, and true if it was used before. The error is true if connecting timed
    /// out.
    async fn acquire(&self, server: &Server) -> Result<(H2Sender, bool), bool> {
        if let Some(current) = self.current() {
            return Ok((current, true));
        }
        let before = self.connect_failures.lock().count;
        let mut connections_made = self.connecting.lock().await;
        if let Some(current) = self.current() {
            return Ok((current, false));
        }
        let ConnectFailures { count, timed_out } = *self.connect_failures.lock();
        if count != before {
            // The failed attempt counts for all requests that waited for it. Otherwise each would retry in turn, and the
            // last would fail only after all the others.
            return Err(timed_out);
        }
        match connect(server).await {
            Ok(sender) => {
                *connections_made += 1;
                let connection = H2Sender { id: *connections_made, sender };
                *self.current.lock() = Some(connection.clone());
                Ok((connection, false))
            }
            Err(timed_out) => {
                *self.connect_failures.lock() = ConnectFailures { count: count + 1, timed_out };
                Err(timed_out)
            }
        }
    }

    fn current(&self) -> Option<H2Sender> {
        self.current.lock().as_ref().filter(|current| !current.sender.is_closed()).cloned()
    }

    /// Discards a connection, unless it was already replaced.
    fn discard(&self, id: u64) {
        self.current.lock().take_if(|current| current.id == id);
    }
}

async fn connect(server: &Server) -> Result<http2::SendRequest<RequestBody>, bool> {
    let stream = server.connect().await.map_err(|error| error.is_timeout())?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(|_| false)?;
    // Waiting requests receive the error themselves.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Takes the request if it has a body, which can be sent only once; otherwise a copy, so that it can be sent
/// again.
fn take_or_copy(request: &mut Request<RequestBody>) -> Request<RequestBody> {
    let body = std::mem::replace(request.body_mut(), RequestBody::Empty);
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = request.method().clone();
    *outgoing.uri_mut() = request.uri().clone();
    *outgoing.headers_mut() = request.headers().clone();
    outgoing
}
