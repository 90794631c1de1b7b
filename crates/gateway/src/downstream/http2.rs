//! HTTP/2 service of a client connection; hyper drives it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;

use crate::client_context::ClientContext;
use crate::proxy::{self, RequestDecision};
use crate::request_body::IncomingBody;
use crate::response::ResponseBody;

/// The hyper service of one HTTP/2 connection.
pub(super) struct Http2Service(pub(super) Arc<ClientContext>);

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
