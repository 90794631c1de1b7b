//! Admin API client: one request at a time on a reused connection, and the tick stream on its own connection.
//! Responses are bounded in size and time.

mod events;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluicegate_http_client::{Connector, error_text};
use tokio::time::timeout;

use self::events::EventParser;
use super::api_types::{self, Tick};
use super::sanitize::UntrustedText;
use super::target::AdminTarget;

/// Maximum response size in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// Request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle timeout of the tick stream; ticks arrive every second.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Admin API error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClientError {
    /// The connection failed or was lost.
    #[error("{0}")]
    Unreachable(String),
    /// Status 401 without a token.
    #[error("a token is required: use --token-file FILE or set SLUICEGATE_TOKEN")]
    TokenNeeded,
    /// Status 401 with a token.
    #[error("the server rejected the token: see `admin.token_file` in its rule file")]
    TokenRejected,
    /// Any other unexpected status.
    #[error("{}{}", .status, .detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}")))]
    UnexpectedStatus { status: StatusCode, detail: Option<UntrustedText> },
    /// The server is not an admin API.
    #[error("not an admin API: {0}")]
    NotAdminApi(&'static str),
}

/// Client for the admin API of one process.
pub(super) struct AdminClient {
    target: AdminTarget,
    connector: Connector,
    idle_connection: Option<SendRequest<Empty<Bytes>>>,
}

impl AdminClient {
    /// Creates a client without connecting. Fails if the URL is invalid.
    pub(super) fn new(target: AdminTarget) -> Result<Self, String> {
        let connector = Connector::new(target.endpoint.clone())?;
        Ok(Self { target, connector, idle_connection: None })
    }

    /// Another client for the same process, not connected.
    pub(super) fn clone_unconnected(&self) -> Self {
        Self { target: self.target.clone(), connector: self.connector.clone(), idle_connection: None }
    }

    pub(super) async fn get(&mut self, route: &str) -> Result<Value, ClientError> {
        self.request_with_timeout(Method::GET, route).await
    }

    pub(super) async fn delete(&mut self, route: &str) -> Result<Value, ClientError> {
        self.request_with_timeout(Method::DELETE, route).await
    }

    /// Opens the tick stream.
    pub(super) async fn open_stream(&self) -> Result<TickStream, ClientError> {
        let mut sender = self.connect().await?;
        let response = timeout(REQUEST_TIMEOUT, sender.send_request(self.build_request(Method::GET, "/v1/live")?));
        let response = response.await.map_err(|_| idle_timeout_error())?.map_err(connection_error)?;
        if response.status() != StatusCode::OK {
            return Err(self.error_for_status(response).await);
        }
        let kind = response.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(ClientError::NotAdminApi("/v1/live is not an event stream"));
        }
        Ok(TickStream {
            body: response.into_body(),
            events: EventParser::default(),
            ticks: VecDeque::new(),
            _sender: sender,
        })
    }

    async fn request_with_timeout(&mut self, method: Method, route: &str) -> Result<Value, ClientError> {
        let response = timeout(REQUEST_TIMEOUT, self.send(method, route)).await;
        // A connection with an abandoned request is not reused.
        response.unwrap_or_else(|_| {
            self.idle_connection = None;
            Err(idle_timeout_error())
        })
    }

    async fn send(&mut self, method: Method, route: &str) -> Result<Value, ClientError> {
        let mut response = None;
        if let Some(mut connection) = self.idle_connection.take().filter(|connection| !connection.is_closed()) {
            // The server may have closed the idle connection: the request is then sent on a new one.
            if let Ok(received) = connection.send_request(self.build_request(method.clone(), route)?).await {
                self.idle_connection = Some(connection);
                response = Some(received);
            }
        }
        let response = match response {
            Some(response) => response,
            None => {
                let mut sender = self.connect().await?;
                let received =
                    sender.send_request(self.build_request(method, route)?).await.map_err(connection_error)?;
                self.idle_connection = Some(sender);
                received
            }
        };
        if !response.status().is_success() {
            return Err(self.error_for_status(response).await);
        }
        match self.body(response).await? {
            Some(json) => Ok(json),
            None => Err(ClientError::NotAdminApi("the response is not JSON")),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, ClientError> {
        let stream = self.connector.connect().await.map_err(|error| ClientError::Unreachable(error_text(&error)))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(connection_error)?;
        // Connection errors reach the task that awaits the response.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn build_request(&self, method: Method, route: &str) -> Result<Request<Empty<Bytes>>, ClientError> {
        let endpoint = &self.target.endpoint;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{route}", endpoint.path))
            .header(HOST, &endpoint.authority)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(USER_AGENT, concat!("sluicegate-top/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.target.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(Empty::new()).map_err(|error| ClientError::Unreachable(error.to_string()))
    }

    async fn error_for_status(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        match status {
            StatusCode::UNAUTHORIZED if self.target.authorization.is_some() => ClientError::TokenRejected,
            StatusCode::UNAUTHORIZED => ClientError::TokenNeeded,
            _ => {
                let json = timeout(REQUEST_TIMEOUT, self.body(response)).await.ok().and_then(Result::ok).flatten();
                ClientError::UnexpectedStatus { status, detail: json.as_ref().and_then(api_types::problem_detail) }
            }
        }
    }

    /// The body as JSON; `None` if it is not JSON.
    async fn body(&self, response: Response<Incoming>) -> Result<Option<Value>, ClientError> {
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| ClientError::Unreachable(error.to_string()))?.to_bytes();
        Ok(serde_json::from_slice(&body).ok())
    }
}

/// Stream of ticks.
pub(super) struct TickStream {
    body: Incoming,
    events: EventParser,
    ticks: VecDeque<Tick>,
    /// Keeps the connection open.
    _sender: SendRequest<Empty<Bytes>>,
}

impl TickStream {
    /// The next tick. Other events are skipped.
    pub(super) async fn next(&mut self) -> Result<Tick, ClientError> {
        loop {
            if let Some(tick) = self.ticks.pop_front() {
                return Ok(tick);
            }
            let frame = timeout(STREAM_IDLE_TIMEOUT, self.body.frame()).await.map_err(|_| idle_timeout_error())?;
            let frame = frame.ok_or_else(|| ClientError::Unreachable("the server closed the stream".to_owned()))?;
            let Ok(bytes) = frame.map_err(connection_error)?.into_data() else { continue };
            let events = self.events.push(&bytes).map_err(|error| ClientError::Unreachable(error.to_string()))?;
            let ticks = events.iter().filter(|event| event.kind == "tick");
            let figures = ticks.filter_map(|tick| serde_json::from_str::<Value>(&tick.data).ok());
            self.ticks.extend(figures.filter(Value::is_object).map(|figures| Tick::from_json(&figures)));
        }
    }
}

fn idle_timeout_error() -> ClientError {
    ClientError::Unreachable("the server does not respond".to_owned())
}

/// Error message of a hyper error with its cause.
fn connection_error(error: hyper::Error) -> ClientError {
    let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
    ClientError::Unreachable(format!("{error}{cause}"))
}
