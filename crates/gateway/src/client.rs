//! One client connection, as requests on it see it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;

use crate::alarm::LazyAlarm;
use crate::body::{AnswerBody, Upload};
use crate::exchange::{self, Begun};
use crate::head::Origin;
use crate::thread::Thread;

/// A connection, with what all its requests share.
pub(crate) struct Client {
    pub(crate) thread: Arc<Thread>,
    pub(crate) origin: Origin,
    /// The alarm of the last request, for the next one.
    alarm: Mutex<Option<LazyAlarm>>,
}

impl Client {
    pub(crate) fn new(thread: Arc<Thread>, origin: Origin) -> Arc<Self> {
        thread.itself().woke();
        Arc::new(Self { thread, origin, alarm: Mutex::new(None) })
    }

    /// An alarm for a request: the one that is there, or a new one.
    pub(crate) fn alarm(&self) -> LazyAlarm {
        self.alarm.lock().take().unwrap_or_else(|| LazyAlarm::new(self.thread.shared.clock.clone()))
    }

    /// Keeps an alarm for the next request.
    pub(crate) fn keep_alarm(&self, alarm: LazyAlarm) {
        *self.alarm.lock() = Some(alarm);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.thread.itself().slept();
    }
}

/// The service of one connection of HTTP/2.
pub(crate) struct ClientService(pub(crate) Arc<Client>);

impl Service<Request<Incoming>> for ClientService {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    /// On the heap: hyper keeps room for it in every connection, busy or not.
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let _under_way = client.thread.tally.begin();
            let mut request = request.map(Upload::Http2);
            // hyper wants a map of headers, whatever the answer is.
            let Begun::GoesOn(opening) = exchange::begin(&client, &mut request, |_, _| None::<Infallible>);
            let answer = exchange::serve(Arc::clone(&client), &mut request, opening).await;
            client.thread.tally.answered(answer.status);
            Ok(answer.into_response())
        })
    }
}
