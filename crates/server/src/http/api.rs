//! HTTP API handler: authorizes, routes and serves calls.

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
use sluicegate_http_adapter::identity::{Forwarding, TrustedProxies};
use sluicegate_http_adapter::{HeaderStyle, Renderer};

use super::auth::ForwardAuth;
use super::decode::{self, BodyKind};
use super::problem::{ApiErrorKind, Problem};
use super::reservations::ReservationStore;
use super::route::{self, ApiRoute};
use super::{body, check, pages, permits, reserve};
use crate::secret::Secret;

/// Header for the secret if `Authorization` belongs to the client, as with forward auth.
pub(super) const SECRET: HeaderName = HeaderName::from_static("x-sluicegate-secret");

/// The HTTP decision API. Clones share the same state.
#[derive(Clone)]
pub(crate) struct HttpApi {
    state: Arc<ApiState>,
}

struct ApiState {
    sluice: Sluice,
    secret: Option<Secret>,
    auth: ForwardAuth,
    reservations: Arc<ReservationStore>,
    max_request_size: usize,
    /// Maximum time between two chunks of a body.
    read_timeout: Duration,
    max_checks: usize,
}

/// Counts of reservations and permits, for monitoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReservationCounts {
    /// Reservations and permits stored now, or about to be.
    pub(crate) active: usize,
    /// Reservations and permits that expired.
    pub(crate) expired: u64,
}

impl HttpApi {
    /// Creates an API that decides by the rules of `sluice`. If a secret is given, callers must send it.
    pub(crate) fn new(sluice: Sluice, settings: &Server, headers: HeaderStyle, secret: Option<Secret>) -> Self {
        let to_usize = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
        let trusted: TrustedProxies = settings.trusted_proxies.iter().copied().collect();
        let auth = ForwardAuth {
            forwarding: Forwarding::from(trusted),
            renderer: Renderer::new(headers),
            has_secret: secret.is_some(),
        };
        let reservations = ReservationStore::new(to_usize(settings.max_reservations), sluice.clock().clone());
        let (max_request_size, max_checks) = (to_usize(settings.max_request_size), to_usize(settings.max_checks));
        let read_timeout = settings.timeouts.request_body;
        Self {
            state: Arc::new(ApiState {
                sluice,
                secret,
                auth,
                reservations,
                max_request_size,
                read_timeout,
                max_checks,
            }),
        }
    }

    /// Handles a call from `peer`. Dropping the future removes a waiting request from its queue.
    pub(crate) async fn handle<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Full<Bytes>> {
        let (call, body) = request.into_parts();
        let response = self.respond(&call, body, peer).await;
        let response = response.unwrap_or_else(|problem| problem.render().map(Full::new));
        for_method(&call.method, response)
    }

    /// Authorizes a POST, reads its body and passes it to `respond`.
    pub(crate) async fn handle_post<B: Body<Data = Bytes>, F: Future<Output = Response<Full<Bytes>>>>(
        &self,
        request: Request<B>,
        respond: impl FnOnce(Bytes) -> F,
    ) -> Response<Full<Bytes>> {
        let (call, body) = request.into_parts();
        let result = async {
            self.authorize(&call)?;
            route::check_method(&call.method, route::POST)?;
            if call.method == Method::OPTIONS {
                return Ok(options_response(route::POST));
            }
            Ok(respond(self.read_body(body).await?).await)
        };
        let response = result.await.unwrap_or_else(|problem: Problem| problem.render().map(Full::new));
        for_method(&call.method, response)
    }

    /// Releases expired reservations and permits; never returns. Run it once per process: without it, expired permits
    /// are not released.
    pub(crate) async fn expire(&self) {
        self.state.reservations.expire().await;
    }

    /// Counts of stored reservations and permits.
    pub(crate) fn reservation_counts(&self) -> ReservationCounts {
        ReservationCounts {
            active: self.state.reservations.slots_used(),
            expired: self.state.reservations.expired_total(),
        }
    }

    async fn respond<B: Body<Data = Bytes>>(
        &self,
        call: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let ApiState { sluice, auth, reservations, .. } = &*self.state;
        let route = ApiRoute::parse(call.uri.path());
        if !route.as_ref().is_ok_and(|route| route.is_public()) {
            self.authorize(call)?;
        }
        let route = route?;
        route::check_method(&call.method, route.allowed_methods())?;
        if route != ApiRoute::Auth && call.method == Method::OPTIONS {
            return Ok(options_response(route.allowed_methods()));
        }
        match route {
            ApiRoute::Check => {
                let body = self.read_json(call, body).await?;
                check::handle(sluice, self.decode(&body, BodyKind::Check)?).await
            }
            ApiRoute::Auth => auth.handle(sluice, call, peer).await,
            ApiRoute::Reserve => {
                let body = self.read_json(call, body).await?;
                reserve::reserve(sluice, reservations, self.decode(&body, BodyKind::Reserve)?).await
            }
            ApiRoute::Settle => {
                let body = self.read_json(call, body).await?;
                reserve::settle(reservations, &self.decode(&body, BodyKind::Settle)?.into_settlement()?)
            }
            ApiRoute::Permits => {
                let body = self.read_json(call, body).await?;
                permits::acquire(sluice, reservations, self.decode(&body, BodyKind::Acquire)?).await
            }
            ApiRoute::Permit(id) if call.method == Method::DELETE => permits::release(reservations, id),
            ApiRoute::Permit(id) => {
                let body = self.read_body(body).await?;
                if body.is_empty() {
                    return permits::renew(reservations, id, None);
                }
                body::require_json(&call.headers)?;
                permits::renew(reservations, id, self.decode(&body, BodyKind::Renew)?.explicit_ttl())
            }
            ApiRoute::Health => Ok(pages::health()),
            ApiRoute::Root => Ok(pages::root()),
            ApiRoute::OpenApi => Ok(pages::openapi()),
            ApiRoute::Docs => Ok(pages::docs_redirect()),
            ApiRoute::DocsFile(file) => pages::docs(file),
        }
    }

    /// Refuses calls without the secret.
    fn authorize(&self, call: &Parts) -> Result<(), Problem> {
        let Some(secret) = &self.state.secret else { return Ok(()) };
        let single_value = |name: &HeaderName| {
            let mut values = call.headers.get_all(name).into_iter();
            values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
        };
        // If our own header is present, `Authorization` belongs to the client.
        let candidate = match call.headers.contains_key(SECRET) {
            true => single_value(&SECRET).map(<[u8]>::trim_ascii),
            false => single_value(&header::AUTHORIZATION).and_then(bearer),
        };
        match candidate {
            Some(candidate) if secret.matches(candidate) => Ok(()),
            Some(_) => Err(Problem::new(ApiErrorKind::Unauthorized, "wrong secret: send the one in `secret_file`")),
            None => {
                let detail =
                    "missing secret: send it once, as `Authorization: Bearer SECRET` or as `X-Sluicegate-Secret`";
                Err(Problem::new(ApiErrorKind::Unauthorized, detail))
            }
        }
    }

    async fn read_json<B: Body<Data = Bytes>>(&self, call: &Parts, body: B) -> Result<Bytes, Problem> {
        body::require_json(&call.headers)?;
        self.read_body(body).await
    }

    async fn read_body<B: Body<Data = Bytes>>(&self, body: B) -> Result<Bytes, Problem> {
        let ApiState { sluice, max_request_size, read_timeout, .. } = &*self.state;
        body::read(body, *max_request_size, *read_timeout, sluice.clock()).await
    }

    fn decode<'b>(&self, body: &'b [u8], kind: BodyKind) -> Result<decode::ApiRequest<'b>, Problem> {
        decode::decode(body, kind, self.state.max_checks)
    }
}

/// The credentials after the `Bearer` scheme.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim_ascii())
}

/// Response to `OPTIONS`: the methods allowed at a path.
fn options_response(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Adapts a response to the method: `HEAD` gets only the `Content-Length`. Over HTTP/2 hyper would send the body,
/// and the client would treat it as a broken stream.
pub(crate) fn for_method(method: &Method, response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    if method != Method::HEAD {
        return response;
    }
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Full::default())
}

impl fmt::Debug for HttpApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpApi")
            .field("sluice", &self.state.sluice)
            .field("reservations", &self.reservation_counts())
            .finish_non_exhaustive()
    }
}
