//! Dispatch of admin calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Either;
use percent_encoding::percent_decode_str;
use sluicegate::cluster::store_of;
use sluicegate_config::MAX_FILE_BYTES;

use super::access::{self, Caller};
use super::event_stream::{EventStream, MAX_LISTENERS};
use super::lists::ListsHandler;
use super::problem::{self, Problem, ProblemKind};
use super::query::Query;
use super::reply::{self, Body, Reply};
use super::route::{Route, RouteId, as_get};
use super::status::ProcessUptime;
use super::{adaptive, assets, bans, body, explain, keys, limits, pages, rules, source, status, store, top, versions};
use crate::metrics::{self, Format};
use crate::providers::Providers;
use crate::runtime_lists::RuntimeLists;
use crate::tokens::{Access, Tokens};

/// Maximum size of a body without rules, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum size of a body with rules: each character of the file may be escaped in JSON.
const MAX_RULES_BODY_BYTES: usize = 16 << 20;

const _: () = assert!(MAX_FILE_BYTES <= MAX_RULES_BODY_BYTES as u64);

/// The admin API.
pub(crate) struct Api {
    providers: Providers,
    tokens: ArcSwapOption<Tokens>,
    runtime_lists: RuntimeLists,
    event_stream: EventStream,
    is_stopping: AtomicBool,
    started: (SystemTime, Instant),
}

impl Api {
    /// Creates the API over these providers, with these tokens.
    pub(crate) fn new(providers: Providers, tokens: Option<Tokens>) -> Self {
        Self {
            providers,
            tokens: ArcSwapOption::from(tokens.map(Arc::new)),
            runtime_lists: RuntimeLists::default(),
            event_stream: EventStream::new(),
            is_stopping: AtomicBool::new(false),
            started: (SystemTime::now(), Instant::now()),
        }
    }

    /// Returns the data providers.
    pub(crate) const fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Replaces the tokens.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        self.tokens.store(Some(Arc::new(tokens)));
    }

    /// Sends events to all listeners, forever.
    pub(crate) async fn run_event_stream(&self) {
        self.event_stream.run(&self.providers).await;
    }

    /// Removes expired list entries. Call this periodically.
    pub(crate) fn expire(&self) {
        self.runtime_lists.expire(&self.providers.sluice);
    }

    /// Marks the process as stopping, for readiness checks and event streams.
    pub(crate) fn drain(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.event_stream.close();
    }

    /// Handles a call from `peer`.
    pub(crate) async fn handle<B: http_body::Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Body> {
        let (call, body) = request.into_parts();
        let response = self.respond(&call, body, peer).await.unwrap_or_else(problem::reply);
        if call.method == Method::HEAD { reply::without_body(response) } else { response }
    }

    async fn respond<B: http_body::Body<Data = Bytes>>(
        &self,
        call: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<Reply, Problem> {
        let route = Route::of(call.uri.path());
        // An unauthorized caller learns nothing about existing paths.
        let need = route.as_ref().map_or(Some(Access::Read), |(route, _)| route.required_access(&call.method));
        let caller = access::authorize(self.tokens.load().as_deref(), call, peer, need)?;
        let (route, name) = route?;
        route.check_method(&call.method)?;
        if call.method == Method::OPTIONS {
            return Ok(options(route));
        }
        let name = percent_decode_str(name).decode_utf8_lossy();
        match *as_get(&call.method) {
            Method::GET => self.get(route.id, &name, call, &caller).await,
            Method::DELETE => self.delete(route.id, &name, call),
            _ => self.send(route.id, &name, call, body, caller).await,
        }
    }

    /// Handles GET and HEAD.
    async fn get(&self, page: RouteId, name: &str, call: &Parts, caller: &Caller) -> Result<Reply, Problem> {
        let Providers { sluice, rule_manager: manager, .. } = &self.providers;
        let query = |known| Query::read(&call.uri, known);
        // Pages accept any query string.
        if !matches!(
            page,
            RouteId::Dashboard | RouteId::Asset | RouteId::DocsFile | RouteId::Docs | RouteId::Top | RouteId::Keys
        ) {
            query(&[])?;
        }
        Ok(match page {
            RouteId::Dashboard => assets::dashboard(&call.headers),
            RouteId::Asset => assets::file(name, &call.headers)?,
            RouteId::Health => pages::health(),
            RouteId::Ready => pages::ready(self.is_stopping.load(Ordering::Relaxed), sluice.counts().len())?,
            RouteId::OpenApi => pages::openapi(),
            RouteId::Docs => pages::redirect_to_docs(),
            RouteId::DocsFile => pages::docs_file(name)?,
            RouteId::Metrics => self.metrics(call),
            RouteId::Status => {
                reply::ok(&status::StatusView::new(sluice, manager, self.uptime(), caller.access, self.store()))
            }
            RouteId::Rules => rules::list(sluice),
            RouteId::Rule => rules::get(sluice, name)?,
            RouteId::Limits => limits::list(sluice, store_of(sluice).as_deref()),
            RouteId::Adaptive => adaptive::list(&self.providers),
            RouteId::Top => top::get(sluice, &query(&["rule", "limit"])?)?,
            RouteId::Keys => keys::get(sluice, &query(&["rule", "key*"])?)?,
            RouteId::Bans => bans::list(sluice),
            RouteId::Lists => self.lists(|lists| Ok(lists.list()))?,
            RouteId::Shadow => rules::shadow(sluice),
            RouteId::Store => reply::ok(&self.store()),
            RouteId::Source => source::get(manager),
            RouteId::Versions => versions::list(manager).await?,
            RouteId::Version => versions::get(manager, name).await?,
            RouteId::Live => self.subscribe()?,
            page => return Err(misrouted(page)),
        })
    }

    /// Handles DELETE.
    fn delete(&self, page: RouteId, name: &str, call: &Parts) -> Result<Reply, Problem> {
        let sluice = &self.providers.sluice;
        let query = |known| Query::read(&call.uri, known);
        match page {
            RouteId::Keys => keys::reset(sluice, &query(&["rule", "key*"])?),
            RouteId::Bans => bans::remove(sluice, &query(&["rule", "key"])?),
            RouteId::List => self.lists(|lists| lists.remove(name, &query(&["condition"])?)),
            page => Err(misrouted(page)),
        }
    }

    /// Handles POST and PUT.
    async fn send<B: http_body::Body<Data = Bytes>>(
        &self,
        page: RouteId,
        name: &str,
        call: &Parts,
        body: B,
        caller: Caller,
    ) -> Result<Reply, Problem> {
        let Providers { sluice, rule_manager: manager, .. } = &self.providers;
        let (headers, clock) = (&call.headers, sluice.clock());
        Query::read(&call.uri, &[])?;
        match page {
            RouteId::Bans => bans::ban(sluice, &body::json(headers, body, MAX_BODY_BYTES, clock).await?),
            RouteId::List => {
                let body = body::json(headers, body, MAX_BODY_BYTES, clock).await?;
                self.lists(|lists| lists.add(name, &body))
            }
            RouteId::Explain => explain::explain(sluice, body::json(headers, body, MAX_BODY_BYTES, clock).await?),
            RouteId::SourceCheck => {
                Ok(source::check(manager, body::json(headers, body, MAX_RULES_BODY_BYTES, clock).await?).await)
            }
            RouteId::Source => {
                source::put(sluice, manager, body::json(headers, body, MAX_RULES_BODY_BYTES, clock).await?, caller)
                    .await
            }
            RouteId::Restore => {
                let body = body::optional_json(headers, body, MAX_BODY_BYTES, clock).await?;
                versions::restore(sluice, manager, name, body, caller).await
            }
            RouteId::Reload => {
                body::expect_empty(body, clock).await?;
                source::reload(sluice, manager).await
            }
            page => Err(misrouted(page)),
        }
    }

    fn lists(&self, act: impl FnOnce(ListsHandler<'_>) -> Result<Reply, Problem>) -> Result<Reply, Problem> {
        let sluice = &self.providers.sluice;
        let store = store_of(sluice);
        act(ListsHandler { sluice, store: store.as_deref(), runtime_lists: &self.runtime_lists })
    }

    fn store(&self) -> Option<store::StoreView> {
        store_of(&self.providers.sluice).map(|store| store::StoreView::new(&store, self.providers.store.clone()))
    }

    fn uptime(&self) -> ProcessUptime {
        let (since, instant) = self.started;
        ProcessUptime { since: since.into(), seconds: instant.elapsed().as_secs_f64() }
    }

    fn metrics(&self, call: &Parts) -> Reply {
        let format = Format::from_accept(&call.headers);
        reply::data(StatusCode::OK, format.content_type(), metrics::text(&self.providers, format))
    }

    fn subscribe(&self) -> Result<Reply, Problem> {
        let full =
            || Problem::new(ProblemKind::Full, format!("{MAX_LISTENERS} listeners are connected: close some of them"));
        let events = self.event_stream.subscribe().ok_or_else(full)?;
        let reply = reply::data(StatusCode::OK, "text/event-stream", Bytes::new());
        let (head, _) = reply.into_parts();
        Ok(Response::from_parts(head, Either::Right(events)))
    }
}

/// Responds with the allowed methods of a path.
fn options(route: &Route) -> Reply {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    if let Ok(allowed) = HeaderValue::try_from(route.allowed()) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

/// A route without a handler. A test calls every route.
fn misrouted(page: RouteId) -> Problem {
    Problem::new(ProblemKind::Unavailable, format!("no handler for {page:?}"))
}
