//! Protocol dispatch: the handlers of each socket's protocol.

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
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::{AcceptedIo, Acceptor, Connection, ConnectionServer, ConnectionTasks, LazyTimer, MaybeTlsStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::active_domains::ActiveDomains;
use crate::error::ServerError;
use crate::http::{HttpApi, for_method};
use crate::resp::{self, Resp};
use crate::rls::{Rls, RlsConfig};
use crate::secret::Secret;

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerProtocol {
    /// Envoy's rate limit service.
    Rls,
    /// HTTP.
    Http,
    /// The Redis protocol.
    Resp,
}

impl ServerProtocol {
    /// The services that the settings configure, with their protocols.
    pub(crate) fn services(server: &settings::Server) -> impl Iterator<Item = (&settings::Service, Self)> {
        let all = [(&server.rls, Self::Rls), (&server.http, Self::Http), (&server.resp, Self::Resp)];
        all.into_iter().filter_map(|(service, protocol)| Some((service.as_ref()?, protocol)))
    }
}

/// The handlers of all protocols.
pub(crate) struct ProtocolHandlers {
    rls: Rls,
    api: HttpApi,
    resp: Resp,
    /// Timeout of the TLS handshake before the first request.
    handshake_timeout: Duration,
    clock: ClockHandle,
    /// Number of HTTP calls.
    http_calls: AtomicU64,
}

impl ProtocolHandlers {
    pub(crate) async fn new(
        settings: &Settings,
        server: &settings::Server,
        sluice: Sluice,
        domains: ActiveDomains,
        base: &Path,
    ) -> Result<Self, ServerError> {
        let secret = |service: &Option<settings::Service>| {
            let file = service.as_ref().and_then(|service| service.secret_file.as_ref());
            file.map(|file| Secret::read(&base.join(file))).transpose()
        };
        let clock = sluice.clock().clone();
        let adhoc = AdHoc::new(server.max_keys as usize, clock.clone())?;
        // With a store, several servers share the counters of ad-hoc limits.
        let adhoc = Arc::new(match sluice.store() {
            Some(store) => adhoc.with_store(store),
            None => adhoc,
        });
        let max_request_size = server.max_request_size as usize;
        let config = RlsConfig {
            domains,
            secret: secret(&server.rls)?,
            style: settings.headers,
            max_request_size,
            read_timeout: server.timeouts.request_body,
            max_checks: server.max_checks as usize,
        };
        let rls = Rls::new(sluice.clone(), Arc::clone(&adhoc), config).await?;
        let api = HttpApi::new(sluice.clone(), server, settings.headers, secret(&server.http)?);
        let limits = resp::RespLimits {
            max_request_size,
            command_timeout: server.timeouts.request_body,
            idle_timeout: server.timeouts.idle,
        };
        let resp = Resp::new(sluice, adhoc, secret(&server.resp)?, limits, clock.clone());
        Ok(Self { rls, api, resp, handshake_timeout: server.timeouts.header, clock, http_calls: AtomicU64::new(0) })
    }

    pub(crate) const fn clock(&self) -> &ClockHandle {
        &self.clock
    }

    /// Number of calls so far by protocol.
    pub(crate) fn calls(&self) -> [(&'static str, u64); 3] {
        let http = self.http_calls.load(Ordering::Relaxed);
        [("rls", self.rls.calls()), ("http", http), ("resp", self.resp.calls())]
    }

    /// Envoy's rate limit service.
    pub(crate) const fn rls(&self) -> &Rls {
        &self.rls
    }

    /// Runs the background task of the HTTP API; never returns.
    pub(crate) async fn run_background(&self) {
        self.api.expire().await;
    }

    /// Reports in all health checks that the server is about to stop.
    pub(crate) async fn drain(&self) {
        self.rls.drain().await;
    }

    /// Ends streams that would never end by themselves.
    pub(crate) fn close_watchers(&self) {
        self.rls.close_watchers();
    }

    /// Serves a connection as one of the connection tasks.
    pub(crate) fn serve(
        self: &Arc<Self>,
        protocol: ServerProtocol,
        connection: Connection,
        acceptor: &Arc<Acceptor>,
        host: &Arc<ConnectionServer>,
        closed: &watch::Receiver<()>,
        tasks: &ConnectionTasks,
    ) {
        let (handlers, closed) = (Arc::clone(self), closed.clone());
        if protocol == ServerProtocol::Resp {
            let acceptor = Arc::clone(acceptor);
            return tasks.spawn(async move { handlers.serve_resp(connection, &acceptor, closed).await });
        }
        let host = Arc::clone(host);
        if acceptor.is_plain() {
            let accept = |connection: Connection| -> Ready<_> {
                let client = connection.peer_addr();
                std::future::ready(Some(AcceptedIo { io: connection, client, is_http2: None }))
            };
            handlers.serve_http(protocol, host, connection, accept, closed, tasks);
        } else {
            let acceptor = Arc::clone(acceptor);
            let accept = |connection: Connection| async move {
                let peer = connection.peer_addr();
                // The connection was not accepted: there is no protocol to reply in.
                let accepted = acceptor.accept(connection, peer).await.ok()?;
                Some(AcceptedIo { io: accepted.stream, client: accepted.client, is_http2: accepted.http2 })
            };
            handlers.serve_http::<MaybeTlsStream<Connection>, _>(protocol, host, connection, accept, closed, tasks);
        }
    }

    fn serve_http<I, E>(
        self: Arc<Self>,
        protocol: ServerProtocol,
        host: Arc<ConnectionServer>,
        connection: Connection,
        accept: impl FnOnce(Connection) -> E + Send + 'static,
        closed: watch::Receiver<()>,
        tasks: &ConnectionTasks,
    ) where
        E: Future<Output = Option<AcceptedIo<I>>> + Send + 'static,
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if protocol == ServerProtocol::Rls {
            let service = move |_: &AcceptedIo<I>| self.rls.clone();
            tasks.spawn(host.serve(connection, accept, service, closed));
        } else {
            let service =
                move |accepted: &AcceptedIo<I>| HttpConnectionService { handlers: self, peer: accepted.client };
            tasks.spawn(host.serve(connection, accept, service, closed));
        }
    }

    async fn serve_resp(&self, connection: Connection, acceptor: &Acceptor, closed: watch::Receiver<()>) {
        if acceptor.is_plain() {
            return self.resp.serve(connection, closed).await;
        }
        let peer = connection.peer_addr();
        let mut timer = LazyTimer::new(self.clock.clone());
        let deadline = timer.now() + self.handshake_timeout;
        if let Some(Ok(accepted)) = timer.within(deadline, Box::pin(acceptor.accept(connection, peer))).await {
            drop(timer);
            self.resp.serve(accepted.stream, closed).await;
        }
    }
}

/// HTTP service of one connection.
struct HttpConnectionService {
    handlers: Arc<ProtocolHandlers>,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for HttpConnectionService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (handlers, peer) = (Arc::clone(&self.handlers), self.peer);
        Box::pin(async move { Ok(handlers.handle_http(request, peer).await) })
    }
}

impl ProtocolHandlers {
    /// Handles an HTTP call: the endpoints of the reference implementation, else our API.
    pub(crate) async fn handle_http<B: Body<Data = Bytes>>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
    ) -> Response<Full<Bytes>> {
        self.http_calls.fetch_add(1, Ordering::Relaxed);
        match request.uri().path() {
            "/healthcheck" => for_method(request.method(), self.rls.healthcheck()),
            "/json" => Box::pin(self.api.handle_post(request, |body| self.rls.handle_json(body))).await,
            _ => self.api.handle(request, peer).await,
        }
    }
}
