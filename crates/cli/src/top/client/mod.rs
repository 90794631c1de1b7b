//! Speaks to an admin API: one question at a time on a connection that is kept, and the stream of figures on
//! one of its own. Answers are bounded in size and in time.

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
use tokio::time::timeout;

use self::events::Events;
use super::target::Target;
use super::text::Text;
use super::wire::{self, Tick};
use crate::connect::{Connector, described};

/// The longest answer that is read.
const LONGEST: usize = 16 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the stream of figures may be silent: they come every second.
const SILENCE: Duration = Duration::from_secs(10);

/// What keeps an answer from coming.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// No connection, or it was lost.
    #[error("{0}")]
    Unreachable(String),
    /// 401.
    #[error("a token is needed: give --token-file FILE or set SLUICEGATE_TOKEN")]
    TokenNeeded,
    /// 401, with a token.
    #[error("the token is not known there: see `admin.token` in its rule file")]
    TokenUnknown,
    /// Another status than was hoped for.
    #[error("{}{}", .status, .detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}")))]
    Refused { status: StatusCode, detail: Option<Text> },
    /// It answers, but is no admin API.
    #[error("this is no admin API: {0}")]
    Foreign(&'static str),
}

/// The admin API of one process.
pub(super) struct Client {
    target: Target,
    connector: Connector,
    kept: Option<SendRequest<Empty<Bytes>>>,
}

impl Client {
    /// Not connected yet. Fails if the URL cannot be meant.
    pub(super) fn new(target: Target) -> Result<Self, String> {
        let connector = Connector::new(target.place.clone())?;
        Ok(Self { target, connector, kept: None })
    }

    /// Another connection to the same.
    pub(super) fn another(&self) -> Self {
        Self { target: self.target.clone(), connector: self.connector.clone(), kept: None }
    }

    pub(super) async fn get(&mut self, route: &str) -> Result<Value, Trouble> {
        self.ask(Method::GET, route).await
    }

    pub(super) async fn delete(&mut self, route: &str) -> Result<Value, Trouble> {
        self.ask(Method::DELETE, route).await
    }

    /// Opens the stream of figures.
    pub(super) async fn live(&self) -> Result<Live, Trouble> {
        let mut sender = self.connect().await?;
        let response = timeout(PATIENCE, sender.send_request(self.request(Method::GET, "/v1/live")?));
        let response = response.await.map_err(|_| silent())?.map_err(lost)?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }
        let kind = response.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(Trouble::Foreign("/v1/live is no stream of events"));
        }
        Ok(Live { body: response.into_body(), events: Events::default(), ticks: VecDeque::new(), _sender: sender })
    }

    async fn ask(&mut self, method: Method, route: &str) -> Result<Value, Trouble> {
        let asked = timeout(PATIENCE, self.ask_patiently(method, route)).await;
        // What was given up half-way is not asked again.
        asked.unwrap_or_else(|_| {
            self.kept = None;
            Err(silent())
        })
    }

    async fn ask_patiently(&mut self, method: Method, route: &str) -> Result<Value, Trouble> {
        let mut response = None;
        if let Some(mut kept) = self.kept.take().filter(|kept| !kept.is_closed()) {
            // The server may have closed it meanwhile: then it is asked anew.
            if let Ok(answer) = kept.send_request(self.request(method.clone(), route)?).await {
                self.kept = Some(kept);
                response = Some(answer);
            }
        }
        let response = match response {
            Some(response) => response,
            None => {
                let mut sender = self.connect().await?;
                let answer = sender.send_request(self.request(method, route)?).await.map_err(lost)?;
                self.kept = Some(sender);
                answer
            }
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        match self.body(response).await? {
            Some(said) => Ok(said),
            None => Err(Trouble::Foreign("its answer is no JSON")),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, Trouble> {
        let stream = self.connector.connect().await.map_err(|error| Trouble::Unreachable(described(&error)))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        // How it ends is heard by who waits for an answer.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn request(&self, method: Method, route: &str) -> Result<Request<Empty<Bytes>>, Trouble> {
        let place = &self.target.place;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{route}", place.path))
            .header(HOST, &place.authority)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(USER_AGENT, concat!("sluicegate-top/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.target.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(Empty::new()).map_err(|error| Trouble::Unreachable(error.to_string()))
    }

    async fn refused(&self, response: Response<Incoming>) -> Trouble {
        let status = response.status();
        match status {
            StatusCode::UNAUTHORIZED if self.target.authorization.is_some() => Trouble::TokenUnknown,
            StatusCode::UNAUTHORIZED => Trouble::TokenNeeded,
            _ => {
                let said = timeout(PATIENCE, self.body(response)).await.ok().and_then(Result::ok).flatten();
                Trouble::Refused { status, detail: said.as_ref().and_then(wire::problem) }
            }
        }
    }

    /// The body as JSON; `None` if it is not.
    async fn body(&self, response: Response<Incoming>) -> Result<Option<Value>, Trouble> {
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| Trouble::Unreachable(error.to_string()))?.to_bytes();
        Ok(serde_json::from_slice(&body).ok())
    }
}

/// The stream of figures.
pub(super) struct Live {
    body: Incoming,
    events: Events,
    ticks: VecDeque<Tick>,
    /// Keeps the connection open.
    _sender: SendRequest<Empty<Bytes>>,
}

impl Live {
    /// The next figures. What else comes is passed over.
    pub(super) async fn next(&mut self) -> Result<Tick, Trouble> {
        loop {
            if let Some(tick) = self.ticks.pop_front() {
                return Ok(tick);
            }
            let frame = timeout(SILENCE, self.body.frame()).await.map_err(|_| silent())?;
            let frame = frame.ok_or_else(|| Trouble::Unreachable("the server ended the stream".to_owned()))?;
            let Ok(bytes) = frame.map_err(lost)?.into_data() else { continue };
            let events = self.events.take(&bytes).map_err(|error| Trouble::Unreachable(error.to_string()))?;
            let ticks = events.iter().filter(|event| event.kind == "tick");
            let figures = ticks.filter_map(|tick| serde_json::from_str::<Value>(&tick.data).ok());
            self.ticks.extend(figures.filter(Value::is_object).map(|figures| Tick::read(&figures)));
        }
    }
}

fn silent() -> Trouble {
    Trouble::Unreachable("the server does not answer".to_owned())
}

/// What hyper met, with its cause.
fn lost(error: hyper::Error) -> Trouble {
    let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
    Trouble::Unreachable(format!("{error}{cause}"))
}
