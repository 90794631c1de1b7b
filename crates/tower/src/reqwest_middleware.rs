//! The calling side around reqwest: [`Outgoing`] and [`ThrottleLayer`] are middlewares of `reqwest-middleware`.
//!
//! What holds calls, and what is heard from answers, is the same as in the tower layer. reqwest follows
//! redirects beneath its middlewares: a call and the redirects it is sent on count as one.
//!
//! ```no_run
//! use reqwest_middleware::ClientBuilder;
//! use sluicegate_engine::Sluice;
//! use sluicegate_tower::{outgoing::Outgoing, reqwest_middleware::limited};
//!
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! let outgoing = Outgoing::builder(Sluice::builder().build()?).host("api.bank.example", "bank").build();
//! let client = ClientBuilder::new(reqwest::Client::new()).with(outgoing).build();
//!
//! match client.get("http://api.bank.example/rates").send().await {
//!     Ok(answer) => drop(answer.text().await?),
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

use crate::outgoing::{Answer, Call, Held, Limited, Outgoing, OutgoingBody, ThrottleLayer};

/// Why a call was not made, if that is what the error says.
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

impl Middleware for Outgoing {
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
            let (departed, ()) = self.depart(&Call::from(&request), ready).await.map_err(Error::middleware)?;
            let response = next.run(request, extensions).await?;
            let held = departed.answered(response.status(), response.headers());
            Ok(holding(response, held))
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
            let attempt = self.ask(&Call::from(&request)).map_err(Error::middleware)?;
            let answer = next.run(request, extensions).await;
            let heard = match &answer {
                Ok(response) => Answer::Head(response.status(), response.headers()),
                Err(Error::Middleware(error)) => Answer::Failed(&**error),
                Err(Error::Reqwest(error)) => Answer::Failed(error),
            };
            self.hear(attempt, heard);
            answer
        })
    }
}

/// The same answer, whose body holds the call's permits until it has been read.
fn holding(response: Response, held: Held) -> Response {
    // reqwest keeps the address beside the answer, and takes it back from the extensions only.
    let url = response::Builder::new().url(response.url().clone()).body(());
    let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
    if let Ok(url) = url {
        parts.extensions.extend(url.into_parts().0.extensions);
    }
    http::Response::from_parts(parts, Body::wrap(OutgoingBody::new(body, held))).into()
}
