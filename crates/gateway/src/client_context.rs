//! Context of one client connection, shared by its requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;

use crate::body::{IncomingBody, ResponseBody};
use crate::head::ClientOrigin;
use crate::proxy::{self, RequestDecision};
use crate::timer::LazyTimer;
use crate::worker::Worker;

/// A client connection as its requests see it.
pub(crate) struct ClientContext {
    pub(crate) worker: Arc<Worker>,
    pub(crate) origin: ClientOrigin,
    /// Timer of the last request, reused by the next one.
    timer: Mutex<Option<LazyTimer>>,
}

impl ClientContext {
    pub(crate) fn new(worker: Arc<Worker>, origin: ClientOrigin) -> Arc<Self> {
        worker.handle().connection_activated();
        Arc::new(Self { worker, origin, timer: Mutex::new(None) })
    }

    /// Takes the stored timer, or creates one.
    pub(crate) fn take_timer(&self) -> LazyTimer {
        self.timer.lock().take().unwrap_or_else(|| LazyTimer::new(self.worker.gateway.clock.clone()))
    }

    /// Stores a timer for the next request.
    pub(crate) fn return_timer(&self, timer: LazyTimer) {
        *self.timer.lock() = Some(timer);
    }
}

impl Drop for ClientContext {
    fn drop(&mut self) {
        self.worker.handle().connection_deactivated();
    }
}

/// The hyper service of one HTTP/2 connection.
pub(crate) struct Http2Service(pub(crate) Arc<ClientContext>);

impl Service<Request<Incoming>> for Http2Service {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    /// Boxed: hyper reserves space for it in every connection, busy or idle.
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let _in_flight = client.worker.counters.begin();
            let mut request = request.map(IncomingBody::Http2);
            // hyper needs a header map, so no preformatted refusal is used.
            let RequestDecision::Continue(decided) = proxy::decide(&client, &mut request, |_, _| None::<Infallible>);
            let response = proxy::respond(Arc::clone(&client), &mut request, decided).await;
            client.worker.counters.record_response(response.status);
            Ok(response.into_response())
        })
    }
}
