//! What is spoken at a socket, and who answers.

use std::convert::Infallible;
use std::future::Ready;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use sluicegate_config::settings::{self, Settings};
use sluicegate_door::{Connection, Entered, Host};
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_listen::{Entrance, Guests, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::domains::DomainsInForce;
use crate::http::{Api, fitting};
use crate::resp::{self, Resp};
use crate::rls::{Rls, Terms};
use crate::secret::Secret;
use crate::server::ServerError;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaking {
    /// Envoy's rate limit service.
    Rls,
    /// HTTP.
    Http,
    /// The Redis protocol.
    Resp,
}

impl Speaking {
    /// The protocols that the settings give a place.
    pub(crate) fn services(server: &settings::Server) -> impl Iterator<Item = (&settings::Service, Self)> {
        let all = [(&server.rls, Self::Rls), (&server.http, Self::Http), (&server.resp, Self::Resp)];
        all.into_iter().filter_map(|(service, speaking)| Some((service.as_ref()?, speaking)))
    }
}

/// Where all protocols are answered from.
pub(crate) struct Desk {
    rls: Rls,
    api: Api,
    resp: Resp,
    /// For what comes before the first request: a handshake.
    patience: Duration,
    clock: ClockHandle,
    /// Calls over HTTP that came.
    http_calls: AtomicU64,
}

impl Desk {
    pub(crate) async fn new(
        settings: &Settings,
        server: &settings::Server,
        sluice: Sluice,
        domains: DomainsInForce,
        base: &Path,
    ) -> Result<Self, ServerError> {
        let secret = |service: &Option<settings::Service>| {
            let file = service.as_ref().and_then(|service| service.secret.as_ref());
            file.map(|file| Secret::read(&base.join(file))).transpose()
        };
        let clock = sluice.clock().clone();
        let adhoc = AdHoc::new(server.max_keys as usize, clock.clone())?;
        // Where there is a store, several servers on it have one threshold, whoever brings the numbers.
        let adhoc = Arc::new(match sluice.store() {
            Some(store) => adhoc.shared_by(store),
            None => adhoc,
        });
        let max_request = server.max_request as usize;
        let terms = Terms {
            domains,
            secret: secret(&server.rls)?,
            style: settings.headers,
            max_request,
            pause: server.timeouts.request_body,
            max_checks: server.max_checks as usize,
        };
        let rls = Rls::new(sluice.clone(), Arc::clone(&adhoc), terms).await?;
        let api = Api::new(sluice.clone(), server, settings.headers, secret(&server.http)?);
        let (whole_command, idle) = (server.timeouts.request_body, server.timeouts.idle);
        let bounds = resp::Bounds { max_request, whole_command, idle };
        let resp = Resp::new(sluice, adhoc, secret(&server.resp)?, bounds, clock.clone());
        Ok(Self { rls, api, resp, patience: server.timeouts.head, clock, http_calls: AtomicU64::new(0) })
    }

    pub(crate) const fn clock(&self) -> &ClockHandle {
        &self.clock
    }

    /// Calls that came so far, by protocol.
    pub(crate) fn calls(&self) -> [(&'static str, u64); 3] {
        let http = self.http_calls.load(Ordering::Relaxed);
        [("rls", self.rls.calls()), ("http", http), ("resp", self.resp.calls())]
    }

    /// Envoy's rate limit service.
    pub(crate) const fn rls(&self) -> &Rls {
        &self.rls
    }

    /// Does what is not done for any one client, for ever.
    pub(crate) async fn look_after(&self) {
        self.api.expire().await;
    }

    /// Says that the server is about to stop, wherever it is asked.
    pub(crate) async fn drain(&self) {
        self.rls.drain().await;
    }

    /// Ends what would go on for ever.
    pub(crate) fn leave(&self) {
        self.rls.leave();
    }

    /// Serves a connection as one of the guests.
    pub(crate) fn serve(
        self: &Arc<Self>,
        speaking: Speaking,
        connection: Connection,
        entrance: &Arc<Entrance>,
        host: &Arc<Host>,
        closed: &watch::Receiver<()>,
        guests: &Guests,
    ) {
        let (desk, closed) = (Arc::clone(self), closed.clone());
        if speaking == Speaking::Resp {
            let entrance = Arc::clone(entrance);
            return guests.spawn(async move { desk.speak_resp(connection, &entrance, closed).await });
        }
        let host = Arc::clone(host);
        if entrance.is_plain() {
            let enter = |connection: Connection| -> Ready<_> {
                let client = connection.peer_addr();
                std::future::ready(Some(Entered { io: connection, client, is_http2: None }))
            };
            desk.speak_http(speaking, host, connection, enter, closed, guests);
        } else {
            let entrance = Arc::clone(entrance);
            let enter = |connection: Connection| async move {
                let peer = connection.peer_addr();
                // Whoever cannot get in is nobody's client: there is nothing to answer with.
                let entered = entrance.enter(connection, peer).await.ok()?;
                Some(Entered { io: entered.stream, client: entered.client, is_http2: entered.http2 })
            };
            desk.speak_http::<Stream<Connection>, _>(speaking, host, connection, enter, closed, guests);
        }
    }

    fn speak_http<I, E>(
        self: Arc<Self>,
        speaking: Speaking,
        host: Arc<Host>,
        connection: Connection,
        enter: impl FnOnce(Connection) -> E + Send + 'static,
        closed: watch::Receiver<()>,
        guests: &Guests,
    ) where
        E: Future<Output = Option<Entered<I>>> + Send + 'static,
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if speaking == Speaking::Rls {
            let service = move |_: &Entered<I>| self.rls.clone();
            guests.spawn(host.host(connection, enter, service, closed));
        } else {
            let service = move |entered: &Entered<I>| Calls { desk: self, peer: entered.client };
            guests.spawn(host.host(connection, enter, service, closed));
        }
    }

    async fn speak_resp(&self, connection: Connection, entrance: &Entrance, closed: watch::Receiver<()>) {
        if entrance.is_plain() {
            return self.resp.serve(connection, closed).await;
        }
        let peer = connection.peer_addr();
        let entered = tokio::select! {
            entered = Box::pin(entrance.enter(connection, peer)) => entered,
            () = self.clock.sleep(self.patience) => return,
        };
        if let Ok(entered) = entered {
            self.resp.serve(entered.stream, closed).await;
        }
    }
}

/// Calls over HTTP of one connection.
struct Calls {
    desk: Arc<Desk>,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for Calls {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (desk, peer) = (Arc::clone(&self.desk), self.peer);
        Box::pin(async move { Ok(desk.answer(request, peer).await) })
    }
}

impl Desk {
    /// The reference's own pages, where its users look for them, and our API everywhere else.
    pub(crate) async fn answer<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Full<Bytes>> {
        self.http_calls.fetch_add(1, Ordering::Relaxed);
        match request.uri().path() {
            "/healthcheck" => fitting(request.method(), self.rls.healthcheck()),
            "/json" => Box::pin(self.api.read_for(request, |body| self.rls.json(body))).await,
            _ => self.api.answer(request, peer).await,
        }
    }
}
