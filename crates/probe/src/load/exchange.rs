//! One request and its response, on an idle or a new connection.
//!
//! Timeout and latency are measured from the scheduled send time. They include the wait for a connection and the
//! delay of the load generator itself.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sluicegate_http_client::Connector;
use tokio::time::timeout_at;

use super::super::settings::ProbeRequest;
use super::super::step::RequestResult;

/// Error numbers for "too many open files", of the process and of the machine.
const FD_EXHAUSTED_ERRNOS: [i32; 2] = [24, 23];

/// Request to send, and its connector.
pub(crate) struct LoadTarget {
    request_spec: ProbeRequest,
    connector: Connector,
}

/// An idle connection.
pub(super) struct IdleConnection(SendRequest<Full<Bytes>>);

impl IdleConnection {
    pub(super) fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

/// A completed request.
pub(super) struct CompletedRequest {
    pub(super) due: Instant,
    pub(super) ended: Instant,
    pub(super) result: RequestResult,
    /// Its connection, if it is reusable.
    pub(super) connection: Option<IdleConnection>,
}

/// Error that prevents a response.
enum ExchangeError {
    Connect(io::Error),
    Http(hyper::Error),
}

impl LoadTarget {
    pub(crate) fn new(request_spec: ProbeRequest, connector: Connector) -> Self {
        Self { request_spec, connector }
    }

    /// Sends one request to check that the target is reachable. Returns the status, or the error.
    pub(crate) async fn check_reachable(&self) -> Result<u16, String> {
        let deadline = Instant::now() + self.request_spec.timeout;
        match timeout_at(deadline.into(), self.send(None)).await {
            Ok(Ok((status, _))) => Ok(status),
            Ok(Err(ExchangeError::Connect(error))) => Err(sluicegate_http_client::error_text(&error)),
            Ok(Err(ExchangeError::Http(error))) => Err(format!("not an HTTP/1.1 server: {error}")),
            Err(_) => Err(format!("no response within {}", super::super::format::latency(self.request_spec.timeout))),
        }
    }

    /// Sends the request that is due and reads the complete response.
    pub(super) async fn exchange(&self, idle_connection: Option<IdleConnection>, due: Instant) -> CompletedRequest {
        let deadline = (due + self.request_spec.timeout).into();
        let result = timeout_at(deadline, self.send(idle_connection)).await;
        let ended = Instant::now();
        match result {
            Ok(Ok((status, mut sender))) => {
                // The connection is reusable once hyper has seen the end of the response too.
                let is_ready = matches!(timeout_at(deadline, sender.ready()).await, Ok(Ok(())));
                let idle_connection = is_ready.then_some(IdleConnection(sender));
                CompletedRequest { due, ended, result: RequestResult::Responded(status), connection: idle_connection }
            }
            Ok(Err(error)) => CompletedRequest { due, ended, result: error.result(), connection: None },
            Err(_) => CompletedRequest {
                due,
                ended: ended.max(due + self.request_spec.timeout),
                result: RequestResult::TimedOut,
                connection: None,
            },
        }
    }

    async fn send(
        &self,
        idle_connection: Option<IdleConnection>,
    ) -> Result<(u16, SendRequest<Full<Bytes>>), ExchangeError> {
        let mut request = self.request();
        if let Some(IdleConnection(mut sender)) = idle_connection {
            match sender.try_send_request(request).await {
                Ok(response) => return read_response(response, sender).await,
                // The server closed the idle connection and nothing was sent: this is not a failure.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(ExchangeError::Http(error.into_error())),
                },
            }
        }
        let stream = self.connector.connect().await.map_err(ExchangeError::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ExchangeError::Http)?;
        // Connection errors reach the task that awaits the response.
        tokio::spawn(async move { drop(connection.await) });
        let response = sender.send_request(request).await.map_err(ExchangeError::Http)?;
        read_response(response, sender).await
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let ProbeRequest { method, uri, headers, body, .. } = &self.request_spec;
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        request.headers_mut().clone_from(headers);
        request
    }
}

/// Reads a response to its end; only the status is used.
async fn read_response(
    response: http::Response<hyper::body::Incoming>,
    sender: SendRequest<Full<Bytes>>,
) -> Result<(u16, SendRequest<Full<Bytes>>), ExchangeError> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        drop(frame.map_err(ExchangeError::Http)?);
    }
    Ok((status, sender))
}

impl ExchangeError {
    fn result(&self) -> RequestResult {
        match self {
            Self::Connect(error) if is_exhausted(error) => RequestResult::Exhausted,
            Self::Connect(error) if error.kind() == io::ErrorKind::TimedOut => RequestResult::TimedOut,
            Self::Connect(_) => RequestResult::ConnectFailed,
            Self::Http(_) => RequestResult::Aborted,
        }
    }
}

/// True if this machine has run out of file descriptors or ports.
fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| FD_EXHAUSTED_ERRNOS.contains(&code))
}
