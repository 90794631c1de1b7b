//! A connection to a server over HTTP/2, which carries many requests at once.

use std::future::poll_fn;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;

use super::{Due, Lost};
use crate::alarm::LazyAlarm;
use crate::body::RequestBody;
use crate::upstream::Server;

/// The one connection of a thread to a server.
#[derive(Default)]
pub(super) struct Shared {
    present: Mutex<Option<Connection>>,
    /// Whoever connects holds it, so that others wait for that connection instead of making their own. Counts them.
    connecting: tokio::sync::Mutex<u64>,
    failures: Mutex<Failures>,
}

/// A connection to send on.
#[derive(Clone)]
struct Connection {
    /// Which it is of those that were made.
    number: u64,
    sender: http2::SendRequest<RequestBody>,
}

/// Connections that did not come about.
#[derive(Clone, Copy, Default)]
struct Failures {
    count: u64,
    /// Whether the last was a matter of time.
    late: bool,
}

impl Shared {
    /// Sends a request. What may be repeated has no body, and is if a kept connection ends.
    pub(super) async fn send(
        &self,
        server: &Server,
        request: &mut Request<RequestBody>,
        may_repeat: bool,
        due: &mut Due,
        alarm: &mut LazyAlarm,
    ) -> Result<Response<Incoming>, Lost> {
        let mut lost = Lost::Unsent;
        // The second time on a connection that was made for it.
        for _ in 0..2 {
            let found = self.connection(server).await.map_err(|late| Lost::NoConnection { late })?;
            let (Connection { number, mut sender }, is_kept) = found;
            let mut answer = std::pin::pin!(sender.try_send_request(taken(request)));
            let fared = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                Poll::Pending => due.poll_late(alarm, context).map(|()| Err(Lost::Late)),
            });
            match fared.await? {
                Ok(answer) => return Ok(answer),
                Err(mut error) => {
                    match error.take_message() {
                        Some(unsent) => *request = unsent,
                        // Probably the server closed it at that moment, which is nobody's fault.
                        None if may_repeat && is_kept => lost = Lost::Broken,
                        None => return Err(Lost::Broken),
                    }
                    self.forget(number);
                }
            }
        }
        Err(lost)
    }

    /// The connection that is there, or a new one, and whether it has been used before; if there is none, whether it
    /// was a matter of time.
    async fn connection(&self, server: &Server) -> Result<(Connection, bool), bool> {
        if let Some(present) = self.present() {
            return Ok((present, true));
        }
        let before = self.failures.lock().count;
        let mut made = self.connecting.lock().await;
        if let Some(present) = self.present() {
            return Ok((present, false));
        }
        let Failures { count, late } = *self.failures.lock();
        if count != before {
            // Whoever connected did so for all who waited for it. Else the last of them would be told when all the
            // others had tried in vain, one after the other.
            return Err(late);
        }
        match connect(server).await {
            Ok(sender) => {
                *made += 1;
                let connection = Connection { number: *made, sender };
                *self.present.lock() = Some(connection.clone());
                Ok((connection, false))
            }
            Err(late) => {
                *self.failures.lock() = Failures { count: count + 1, late };
                Err(late)
            }
        }
    }

    fn present(&self) -> Option<Connection> {
        self.present.lock().as_ref().filter(|present| !present.sender.is_closed()).cloned()
    }

    /// Uses a connection no more; another may have taken its place already.
    fn forget(&self, number: u64) {
        self.present.lock().take_if(|present| present.number == number);
    }
}

async fn connect(server: &Server) -> Result<http2::SendRequest<RequestBody>, bool> {
    let stream = server.connect().await.map_err(|error| error.is_timeout())?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(|_| false)?;
    // How it ended, those who wait for answers are told.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The request itself if it has a body, which can be sent once; otherwise one like it, so that it can be sent again.
fn taken(request: &mut Request<RequestBody>) -> Request<RequestBody> {
    let body = std::mem::replace(request.body_mut(), RequestBody::Empty);
    let mut taken = Request::new(body);
    *taken.method_mut() = request.method().clone();
    *taken.uri_mut() = request.uri().clone();
    *taken.headers_mut() = request.headers().clone();
    taken
}
