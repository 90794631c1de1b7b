//! One request and its answer, on a connection that is kept or a new one.
//!
//! The time it may take begins when it is due. So does its latency: with the wait for a connection, and with what the
//! load generator itself was late.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::timeout_at;

use super::super::settings::Question;
use super::super::step::Fate;
use crate::connect::Connector;

/// The system's numbers for "too many open files", of the process and of the machine.
const NO_FILES: [i32; 2] = [24, 23];

/// What is asked, and where.
pub(in crate::probe) struct Target {
    question: Question,
    connector: Connector,
}

/// A connection between two requests.
pub(super) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(super) fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

/// A request that has ended.
pub(super) struct Done {
    pub(super) due: Instant,
    pub(super) ended: Instant,
    pub(super) fate: Fate,
    /// Its connection, if it can be used again.
    pub(super) kept: Option<Connection>,
}

/// What keeps an answer from coming.
enum Trouble {
    Connecting(io::Error),
    Talking(hyper::Error),
}

impl Target {
    pub(in crate::probe) fn new(question: Question, connector: Connector) -> Self {
        Self { question, connector }
    }

    /// Asks once, to see whether there is anybody. The status, or why not.
    pub(in crate::probe) async fn knock(&self) -> Result<u16, String> {
        let deadline = Instant::now() + self.question.timeout;
        match timeout_at(deadline.into(), self.ask(None)).await {
            Ok(Ok((status, _))) => Ok(status),
            Ok(Err(Trouble::Connecting(error))) => Err(crate::connect::described(&error)),
            Ok(Err(Trouble::Talking(error))) => Err(format!("it does not speak HTTP/1.1: {error}")),
            Err(_) => Err(format!("no answer in {}", super::super::figures::latency(self.question.timeout))),
        }
    }

    /// Sends the request that is due, and takes the whole answer.
    pub(super) async fn exchange(&self, kept: Option<Connection>, due: Instant) -> Done {
        let deadline = (due + self.question.timeout).into();
        let asked = timeout_at(deadline, self.ask(kept)).await;
        let ended = Instant::now();
        match asked {
            Ok(Ok((status, mut sender))) => {
                // It can be used again as soon as hyper has seen the answer's end too.
                let is_ready = matches!(timeout_at(deadline, sender.ready()).await, Ok(Ok(())));
                let kept = is_ready.then_some(Connection(sender));
                Done { due, ended, fate: Fate::Answered(status), kept }
            }
            Ok(Err(trouble)) => Done { due, ended, fate: trouble.fate(), kept: None },
            Err(_) => Done { due, ended: ended.max(due + self.question.timeout), fate: Fate::TimedOut, kept: None },
        }
    }

    async fn ask(&self, kept: Option<Connection>) -> Result<(u16, SendRequest<Full<Bytes>>), Trouble> {
        let mut request = self.request();
        if let Some(Connection(mut sender)) = kept {
            match sender.try_send_request(request).await {
                Ok(response) => return whole(response, sender).await,
                // The server closed it while it was idle, and nothing was sent: that is no failure.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Trouble::Talking(error.into_error())),
                },
            }
        }
        let stream = self.connector.connect().await.map_err(Trouble::Connecting)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Trouble::Talking)?;
        // How it ends is heard by who waits for an answer.
        tokio::spawn(async move { drop(connection.await) });
        let response = sender.send_request(request).await.map_err(Trouble::Talking)?;
        whole(response, sender).await
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let Question { method, uri, headers, body, .. } = &self.question;
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        request.headers_mut().clone_from(headers);
        request
    }
}

/// Reads an answer to its end; only its status is of interest.
async fn whole(
    response: http::Response<hyper::body::Incoming>,
    sender: SendRequest<Full<Bytes>>,
) -> Result<(u16, SendRequest<Full<Bytes>>), Trouble> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        drop(frame.map_err(Trouble::Talking)?);
    }
    Ok((status, sender))
}

impl Trouble {
    fn fate(&self) -> Fate {
        match self {
            Self::Connecting(error) if is_exhausted(error) => Fate::Exhausted,
            Self::Connecting(error) if error.kind() == io::ErrorKind::TimedOut => Fate::TimedOut,
            Self::Connecting(_) => Fate::Unconnected,
            Self::Talking(_) => Fate::Broken,
        }
    }
}

/// Whether it is this machine that has no more to give.
fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error().is_some_and(|code| NO_FILES.contains(&code))
}
