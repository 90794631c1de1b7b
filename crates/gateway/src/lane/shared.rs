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
    sender: Mutex<Option<http2::SendRequest<RequestBody>>>,
    /// Whoever connects holds it, so that others wait for that connection instead of making their own.
    connecting: tokio::sync::Mutex<()>,
}

impl Shared {
    pub(super) async fn send(
        &self,
        server: &Server,
        request: &mut Request<RequestBody>,
        due: &mut Due,
        alarm: &mut LazyAlarm,
    ) -> Result<Response<Incoming>, Lost> {
        // The second time on a connection that was made for it.
        for _ in 0..2 {
            let mut sender = self.sender(server).await.map_err(|late| Lost::NoConnection { late })?;
            let mut answer = std::pin::pin!(sender.try_send_request(taken(request)));
            let fared = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                Poll::Pending => due.poll_late(alarm, context).map(|()| Err(Lost::Late)),
            });
            match fared.await? {
                Ok(answer) => return Ok(answer),
                Err(mut error) => {
                    let Some(unsent) = error.take_message() else { return Err(Lost::Broken) };
                    *self.sender.lock() = None;
                    *request = unsent;
                }
            }
        }
        Err(Lost::Unsent)
    }

    /// The connection that is there, or a new one; if there is none, whether it was a matter of time.
    async fn sender(&self, server: &Server) -> Result<http2::SendRequest<RequestBody>, bool> {
        if let Some(sender) = self.present() {
            return Ok(sender);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(sender) = self.present() {
            return Ok(sender);
        }
        let stream = server.connect().await.map_err(|error| error.is_timeout())?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|_| false)?;
        // How it ended, those who wait for answers are told.
        tokio::spawn(async move { drop(connection.await) });
        *self.sender.lock() = Some(sender.clone());
        Ok(sender)
    }

    fn present(&self) -> Option<http2::SendRequest<RequestBody>> {
        self.sender.lock().as_ref().filter(|sender| !sender.is_closed()).cloned()
    }
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
