//! From a call to its answer.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::Full;
use sluicegate_config::settings::Server;
use sluicegate_engine::Sluice;
use sluicegate_http::identity::{Forwarding, TrustedProxies};
use sluicegate_http::{HeaderStyle, Renderer};

use super::auth::Auth;
use super::held::Registry;
use super::problem::{Kind, Problem};
use super::read::{self, Form};
use super::route::{self, Route};
use super::{body, check, pages, permits, reserve};
use crate::secret::Secret;

/// What shows the secret where `Authorization` is somebody else's, as at forward auth.
pub(super) const SECRET: HeaderName = HeaderName::from_static("x-sluicegate-secret");

/// Decisions over HTTP. Clones are the same.
#[derive(Clone)]
pub(crate) struct Api {
    shared: Arc<Shared>,
}

struct Shared {
    sluice: Sluice,
    secret: Option<Secret>,
    auth: Auth,
    held: Arc<Registry>,
    max_request: usize,
    /// The longest between two parts of a body.
    pause: Duration,
    max_checks: usize,
}

/// What is held for clients, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldCounts {
    /// Reservations and permits held now, or about to be.
    pub(crate) held: usize,
    /// Those that were let go because their time was up.
    pub(crate) expired: u64,
}

impl Api {
    /// Decides by these rules, for whoever shows the secret if there is one.
    pub(crate) fn new(sluice: Sluice, settings: &Server, headers: HeaderStyle, secret: Option<Secret>) -> Self {
        let whole = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
        let trusted: TrustedProxies = settings.trusted_proxies.iter().copied().collect();
        let auth = Auth {
            forwarding: Forwarding::from(trusted),
            renderer: Renderer::new(headers),
            has_secret: secret.is_some(),
        };
        let held = Registry::new(whole(settings.max_held), sluice.clock().clone());
        let (max_request, max_checks) = (whole(settings.max_request), whole(settings.max_checks));
        let pause = settings.timeouts.request_body;
        Self { shared: Arc::new(Shared { sluice, secret, auth, held, max_request, pause, max_checks }) }
    }

    /// Answers a call that came from `peer`. Dropped before it is done, it has left the line it stood in.
    pub(crate) async fn answer<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Full<Bytes>> {
        let (call, body) = request.into_parts();
        let answer = self.respond(&call, body, peer).await;
        let answer = answer.unwrap_or_else(|problem| problem.render().map(Full::new));
        fitting(&call.method, answer)
    }

    /// Reads what is posted for somebody else to answer, by whoever may ask.
    pub(crate) async fn read_for<B: Body<Data = Bytes>, F: Future<Output = Response<Full<Bytes>>>>(
        &self,
        request: Request<B>,
        answer: impl FnOnce(Bytes) -> F,
    ) -> Response<Full<Bytes>> {
        let (call, body) = request.into_parts();
        let answered = async {
            self.authorize(&call)?;
            route::fits(&call.method, route::POST)?;
            if call.method == Method::OPTIONS {
                return Ok(options(route::POST));
            }
            Ok(answer(self.whole(body).await?).await)
        };
        let answer = answered.await.unwrap_or_else(|problem: Problem| problem.render().map(Full::new));
        fitting(&call.method, answer)
    }

    /// Lets go what clients have not ended in time, for ever. To be run once in a process: without it, permits
    /// whose time is up are not given back.
    pub(crate) async fn expire(&self) {
        self.shared.held.expire().await;
    }

    /// What is held for clients.
    pub(crate) fn held(&self) -> HeldCounts {
        HeldCounts { held: self.shared.held.held(), expired: self.shared.held.expired() }
    }

    async fn respond<B: Body<Data = Bytes>>(
        &self,
        call: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let Shared { sluice, auth, held, .. } = &*self.shared;
        let route = Route::of(call.uri.path());
        if !route.as_ref().is_ok_and(|route| route.is_open()) {
            self.authorize(call)?;
        }
        let route = route?;
        route::fits(&call.method, route.allowed())?;
        if route != Route::Auth && call.method == Method::OPTIONS {
            return Ok(options(route.allowed()));
        }
        match route {
            Route::Check => {
                let body = self.json(call, body).await?;
                check::answer(sluice, self.read(&body, Form::Check)?).await
            }
            Route::Auth => auth.answer(sluice, call, peer).await,
            Route::Reserve => {
                let body = self.json(call, body).await?;
                reserve::reserve(sluice, held, self.read(&body, Form::Reserve)?).await
            }
            Route::Settle => {
                let body = self.json(call, body).await?;
                reserve::settle(held, &self.read(&body, Form::Settle)?.settling()?)
            }
            Route::Permits => {
                let body = self.json(call, body).await?;
                permits::acquire(sluice, held, self.read(&body, Form::Acquire)?).await
            }
            Route::Permit(id) if call.method == Method::DELETE => permits::release(held, id),
            Route::Permit(id) => {
                let body = self.whole(body).await?;
                if body.is_empty() {
                    return permits::renew(held, id, None);
                }
                body::is_json(&call.headers)?;
                permits::renew(held, id, self.read(&body, Form::Renew)?.new_ttl())
            }
            Route::Health => Ok(pages::health()),
            Route::Root => Ok(pages::root()),
            Route::Description => Ok(pages::description()),
            Route::Docs => Ok(pages::to_docs()),
            Route::DocsFile(file) => pages::docs(file),
        }
    }

    /// Refuses whoever does not show the secret.
    fn authorize(&self, call: &Parts) -> Result<(), Problem> {
        let Some(secret) = &self.shared.secret else { return Ok(()) };
        let only = |name: &HeaderName| {
            let mut lines = call.headers.get_all(name).into_iter();
            lines.next().filter(|_| lines.next().is_none()).map(HeaderValue::as_bytes)
        };
        // Where our own header is there, the other one is the client's.
        let shown = match call.headers.contains_key(SECRET) {
            true => only(&SECRET).map(<[u8]>::trim_ascii),
            false => only(&header::AUTHORIZATION).and_then(bearer),
        };
        match shown {
            Some(shown) if secret.is(shown) => Ok(()),
            Some(_) => {
                Err(Problem::new(Kind::Unauthorized, "this is not the secret: send the one in the `secret` file"))
            }
            None => {
                let detail =
                    "no secret was shown: send it as `Authorization: Bearer SECRET`, or as `X-Sluicegate-Secret`";
                Err(Problem::new(Kind::Unauthorized, detail))
            }
        }
    }

    async fn json<B: Body<Data = Bytes>>(&self, call: &Parts, body: B) -> Result<Bytes, Problem> {
        body::is_json(&call.headers)?;
        self.whole(body).await
    }

    async fn whole<B: Body<Data = Bytes>>(&self, body: B) -> Result<Bytes, Problem> {
        let Shared { sluice, max_request, pause, .. } = &*self.shared;
        body::read(body, *max_request, *pause, sluice.clock()).await
    }

    fn read<'b>(&self, body: &'b [u8], form: Form) -> Result<read::Asked<'b>, Problem> {
        read::read(body, form, self.shared.max_checks)
    }
}

/// What follows the scheme `Bearer`.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, shown) = line.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(shown.trim_ascii())
}

/// What can be done at a path.
fn options(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The answer as the method wants it: `HEAD` is only told how long it would have been. Over HTTP/2 hyper would send the
/// body, and the client would take that for a broken stream.
pub(crate) fn fitting(method: &Method, answer: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    if method != Method::HEAD {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Full::default())
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("sluice", &self.shared.sluice).field("held", &self.held()).finish_non_exhaustive()
    }
}
