//! Client-side limits for reqwest: [`ClientLimit`] and [`ThrottleLayer`] as `reqwest-middleware` middlewares.
//!
//! Holds and server hints work as in the tower layer. reqwest follows
//! redirects below its middlewares: a call and its redirects count as one.
//!
//! ```no_run
//! use reqwest_middleware::ClientBuilder;
//! use sluicegate_engine::Sluice;
//! use sluicegate_tower::{client::ClientLimit, reqwest_middleware::limited};
//!
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! let limit = ClientLimit::builder(Sluice::builder().build()?).host("api.bank.example", "bank").build();
//! let client = ClientBuilder::new(reqwest::Client::new()).with(limit).build();
//!
//! match client.get("http://api.bank.example/rates").send().await {
//!     Ok(response) => drop(response.text().await?),
//!     Err(error) => match limited(&error) {
//!         Some(limited) => drop(limited.retry_after()), // not sent; the exact wait
//!         None => return Err(error.into()),
//!     },
//! }
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;

use http::{Extensions, response};
use reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Error, Middleware, Next, Result};

use crate::client::{Call, CallResult, ClientLimit, Limited, OutgoingBody, ResponseGuard, ThrottleLayer};

/// The [`Limited`] in an error, if the call was not made.
pub fn limited(error: &Error) -> Option<&Limited> {
    match error {
        Error::Middleware(error) => error.downcast_ref(),
        Error::Reqwest(_) => None,
    }
}

impl<'a> From<&'a Request> for Call<'a> {
    fn from(request: &'a Request) -> Self {
        let url = request.url();
        Self {
            method: request.method(),
            scheme: Some(url.scheme()),
            host: url.host_str().unwrap_or_default(),
            port: url.port(),
            path: url.path(),
            query: url.query(),
            headers: request.headers(),
        }
    }
}

impl Middleware for ClientLimit {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        's: 'f,
        'e: 'f,
        'n: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let ready = || std::future::ready(Ok::<(), Limited>(()));
            let (sent, ()) = self.acquire(&Call::from(&request), ready).await.map_err(Error::middleware)?;
            let response = next.run(request, extensions).await?;
            let guard = sent.on_response(response.status(), response.headers());
            Ok(with_guard(response, guard))
        })
    }
}

impl Middleware for ThrottleLayer {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        's: 'f,
        'e: 'f,
        'n: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let attempt = self.check(&Call::from(&request)).map_err(Error::middleware)?;
            let response = next.run(request, extensions).await;
            let result = match &response {
                Ok(response) => CallResult::Head(response.status(), response.headers()),
                Err(Error::Middleware(error)) => CallResult::Failed(&**error),
                Err(Error::Reqwest(error)) => CallResult::Failed(error),
            };
            self.record(attempt, result);
            response
        })
    }
}

/// The same response with a body that holds the call's permits until it has been read.
fn with_guard(response: Response, guard: ResponseGuard) -> Response {
    // reqwest stores the URL next to the response, and restores it from the extensions only.
    let url = response::Builder::new().url(response.url().clone()).body(());
    let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
    if let Ok(url) = url {
        parts.extensions.extend(url.into_parts().0.extensions);
    }
    http::Response::from_parts(parts, Body::wrap(OutgoingBody::new(body, guard))).into()
}
