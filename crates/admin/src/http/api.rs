//! From a call to its answer.

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
use sluicegate_config::LARGEST_FILE;

use super::access::{self, Asker};
use super::lists::Kept;
use super::problem::{self, Kind, Problem};
use super::query::Query;
use super::reply::{self, Body, Reply};
use super::route::{Page, Route, as_get};
use super::status::Running;
use super::{adaptive, assets, bans, body, explain, keys, limits, pages, rules, source, status, store, top, versions};
use crate::added::AddedLists;
use crate::live::{Live, MOST_LISTENERS};
use crate::metrics::{self, Format};
use crate::sources::Sources;
use crate::tokens::{Access, Tokens};

/// The largest body that brings no rules, in bytes.
const MOST: usize = 64 << 10;

/// The largest body that brings rules: each character of the file may be escaped in JSON.
const MOST_RULES: usize = 16 << 20;

const _: () = assert!(LARGEST_FILE <= MOST_RULES as u64);

/// The admin API.
pub(crate) struct Api {
    sources: Sources,
    tokens: ArcSwapOption<Tokens>,
    added: AddedLists,
    live: Live,
    is_stopping: AtomicBool,
    started: (SystemTime, Instant),
}

impl Api {
    /// Tells of these sources, to whoever has one of the tokens.
    pub(crate) fn new(sources: Sources, tokens: Option<Tokens>) -> Self {
        Self {
            sources,
            tokens: ArcSwapOption::from(tokens.map(Arc::new)),
            added: AddedLists::default(),
            live: Live::new(),
            is_stopping: AtomicBool::new(false),
            started: (SystemTime::now(), Instant::now()),
        }
    }

    /// What it tells of.
    pub(crate) const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Exchanges the tokens.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        self.tokens.store(Some(Arc::new(tokens)));
    }

    /// Tells what goes on to whoever listens, for ever.
    pub(crate) async fn tell(&self) {
        self.live.tell(&self.sources).await;
    }

    /// Lets go of list entries whose time is up. To be called every now and then.
    pub(crate) fn expire(&self) {
        self.added.expire(&self.sources.sluice);
    }

    /// Says that the process is about to stop, wherever it is asked.
    pub(crate) fn drain(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.live.end();
    }

    /// Answers a call that came from `peer`.
    pub(crate) async fn answer<B: http_body::Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Body> {
        let (call, body) = request.into_parts();
        let answer = self.respond(&call, body, peer).await.unwrap_or_else(problem::reply);
        if call.method == Method::HEAD { reply::without_body(answer) } else { answer }
    }

    async fn respond<B: http_body::Body<Data = Bytes>>(
        &self,
        call: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<Reply, Problem> {
        let route = Route::of(call.uri.path());
        // Whoever may not ask is not told what there is.
        let need = route.as_ref().map_or(Some(Access::Read), |(route, _)| route.need(&call.method));
        let asker = access::admit(self.tokens.load().as_deref(), call, peer, need)?;
        let (route, name) = route?;
        route.fits(&call.method)?;
        if call.method == Method::OPTIONS {
            return Ok(options(route));
        }
        let name = percent_decode_str(name).decode_utf8_lossy();
        match *as_get(&call.method) {
            Method::GET => self.get(route.page, &name, call, &asker).await,
            Method::DELETE => self.delete(route.page, &name, call),
            _ => self.send(route.page, &name, call, body, asker).await,
        }
    }

    /// Looks at something.
    async fn get(&self, page: Page, name: &str, call: &Parts, asker: &Asker) -> Result<Reply, Problem> {
        let Sources { sluice, keeper, .. } = &self.sources;
        let query = |known| Query::read(&call.uri, known);
        // Pages are looked at with whatever behind them.
        if !matches!(page, Page::Dashboard | Page::Asset | Page::DocsFile | Page::Docs | Page::Top | Page::Keys) {
            query(&[])?;
        }
        Ok(match page {
            Page::Dashboard => assets::dashboard(&call.headers),
            Page::Asset => assets::file(name, &call.headers)?,
            Page::Health => pages::health(),
            Page::Ready => pages::ready(self.is_stopping.load(Ordering::Relaxed), sluice.counts().len())?,
            Page::Description => pages::description(),
            Page::Docs => pages::to_docs(),
            Page::DocsFile => pages::docs(name)?,
            Page::Metrics => self.metrics(call),
            Page::Status => reply::ok(&status::Shown::new(sluice, keeper, self.running(), asker.access, self.store())),
            Page::Rules => rules::all(sluice),
            Page::Rule => rules::one(sluice, name)?,
            Page::Limits => limits::all(sluice, store_of(sluice).as_deref()),
            Page::Adaptive => adaptive::all(&self.sources),
            Page::Top => top::get(sluice, &query(&["rule", "most"])?)?,
            Page::Keys => keys::get(sluice, &query(&["rule", "key*"])?)?,
            Page::Bans => bans::all(sluice),
            Page::Lists => self.lists(|kept| Ok(kept.all()))?,
            Page::Shadow => rules::shadow(sluice),
            Page::Store => reply::ok(&self.store()),
            Page::Source => source::get(keeper),
            Page::Versions => versions::all(keeper).await?,
            Page::Version => versions::one(keeper, name).await?,
            Page::Live => self.live()?,
            page => return Err(misrouted(page)),
        })
    }

    /// Takes something away.
    fn delete(&self, page: Page, name: &str, call: &Parts) -> Result<Reply, Problem> {
        let sluice = &self.sources.sluice;
        let query = |known| Query::read(&call.uri, known);
        match page {
            Page::Keys => keys::reset(sluice, &query(&["rule", "key*"])?),
            Page::Bans => bans::lift(sluice, &query(&["rule", "key"])?),
            Page::List => self.lists(|kept| kept.remove(name, &query(&["condition"])?)),
            page => Err(misrouted(page)),
        }
    }

    /// Sends something to be looked at, or to be done.
    async fn send<B: http_body::Body<Data = Bytes>>(
        &self,
        page: Page,
        name: &str,
        call: &Parts,
        body: B,
        asker: Asker,
    ) -> Result<Reply, Problem> {
        let Sources { sluice, keeper, .. } = &self.sources;
        let (headers, clock) = (&call.headers, sluice.clock());
        Query::read(&call.uri, &[])?;
        match page {
            Page::Bans => bans::ban(sluice, &body::json(headers, body, MOST, clock).await?),
            Page::List => {
                let asked = body::json(headers, body, MOST, clock).await?;
                self.lists(|kept| kept.add(name, &asked))
            }
            Page::Explain => explain::answer(sluice, body::json(headers, body, MOST, clock).await?),
            Page::SourceCheck => Ok(source::check(keeper, body::json(headers, body, MOST_RULES, clock).await?).await),
            Page::Source => {
                source::put(sluice, keeper, body::json(headers, body, MOST_RULES, clock).await?, asker).await
            }
            Page::Restore => {
                let asked = body::json_if_any(headers, body, MOST, clock).await?;
                versions::restore(sluice, keeper, name, asked, asker).await
            }
            Page::Reload => {
                body::none(body, clock).await?;
                source::reload(sluice, keeper).await
            }
            page => Err(misrouted(page)),
        }
    }

    fn lists(&self, act: impl FnOnce(Kept<'_>) -> Result<Reply, Problem>) -> Result<Reply, Problem> {
        let sluice = &self.sources.sluice;
        let store = store_of(sluice);
        act(Kept { sluice, store: store.as_deref(), added: &self.added })
    }

    fn store(&self) -> Option<store::Shown> {
        store_of(&self.sources.sluice).map(|store| store::Shown::new(&store, self.sources.store.clone()))
    }

    fn running(&self) -> Running {
        let (since, instant) = self.started;
        Running { since: since.into(), seconds: instant.elapsed().as_secs_f64() }
    }

    fn metrics(&self, call: &Parts) -> Reply {
        let format = Format::accepted(&call.headers);
        reply::data(StatusCode::OK, format.content_type(), metrics::text(&self.sources, format))
    }

    fn live(&self) -> Result<Reply, Problem> {
        let full = || Problem::new(Kind::Full, format!("{MOST_LISTENERS} listen already: close some"));
        let events = self.live.listen().ok_or_else(full)?;
        let reply = reply::data(StatusCode::OK, "text/event-stream", Bytes::new());
        let (head, _) = reply.into_parts();
        Ok(Response::from_parts(head, Either::Right(events)))
    }
}

/// What can be done at a path.
fn options(route: &Route) -> Reply {
    let mut answer = reply::empty(StatusCode::NO_CONTENT);
    if let Ok(allowed) = HeaderValue::try_from(route.allowed()) {
        answer.headers_mut().insert(header::ALLOW, allowed);
    }
    answer
}

/// A route that stands in the table and that nobody serves. A test walks them all.
fn misrouted(page: Page) -> Problem {
    Problem::new(Kind::Unavailable, format!("nobody serves {page:?}"))
}
