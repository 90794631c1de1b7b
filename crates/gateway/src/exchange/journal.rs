//! What is noted about a request while it is served; its line is written when its answer has ended.
//!
//! Where there is no access log, nothing of this is there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HeaderName, REFERER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version};
use sluicegate_engine::rule::Reply;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Timestamp};

use crate::body::BodyFate;
use crate::client::Client;
use crate::failure::Failure;
use crate::head;
use crate::log::request_id::RequestId;
use crate::log::{Line, ServedBy, Verdict};
use crate::upstream::Server;

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The status of a request that was over before any answer, as nginx has it.
const ABANDONED: u16 = 499;

/// Notes on one request.
pub(crate) struct Journal {
    client: Arc<Client>,
    id: RequestId,
    time: SystemTime,
    begun: Timestamp,
    address: IpAddr,
    method: Method,
    target: Uri,
    host: String,
    version: Version,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    fate: Option<Arc<BodyFate>>,
    /// Of the answer, once it has begun.
    status: Option<StatusCode>,
    response_bytes: u64,
    /// How long it has stood in lines that it has left.
    wait: Duration,
    /// Since when it stands in one.
    in_line: Option<Timestamp>,
    sent: Option<Timestamp>,
    upstream: Option<String>,
    server: Option<Arc<Server>>,
    upstream_time: Option<Duration>,
    attempts: u32,
    /// What became of it, once that is known.
    verdict: Option<Verdict>,
    rule: Option<String>,
    key_hash: Option<u64>,
    shadow: Option<String>,
    store_lost: bool,
    /// Whether the answer has ended as it should.
    has_ended: bool,
}

impl Journal {
    /// Begins, if there is a log. The request is given its id, unless a trusted proxy has done so.
    pub(super) fn begin<B>(client: &Arc<Client>, request: &mut Request<B>) -> Option<Box<Self>> {
        let log = client.thread.log.as_ref()?;
        let given = request.headers().get(&X_REQUEST_ID).filter(|_| client.origin.is_trusted());
        let id = given.and_then(RequestId::accept).unwrap_or_else(|| log.ids.next());
        request.headers_mut().insert(&X_REQUEST_ID, id.header().clone());
        let header = |name: HeaderName| request.headers().get(name).cloned();
        let shared = &client.thread.shared;
        let begun = shared.clock.now();
        Some(Box::new(Self {
            id,
            time: SystemTime::now(),
            begun,
            address: client.origin.client(&shared.forwarding, request.headers()),
            method: request.method().clone(),
            target: request.uri().clone(),
            host: head::authority(request).to_owned(),
            version: request.version(),
            referer: header(REFERER),
            user_agent: header(USER_AGENT),
            fate: None,
            status: None,
            response_bytes: 0,
            wait: Duration::ZERO,
            in_line: Some(begun),
            sent: None,
            upstream: None,
            server: None,
            upstream_time: None,
            attempts: 0,
            verdict: None,
            rule: None,
            key_hash: None,
            shadow: None,
            store_lost: false,
            has_ended: false,
            client: Arc::clone(client),
        }))
    }

    /// It waits for its turn, if it did not already.
    pub(super) fn waits(&mut self) {
        self.in_line.get_or_insert_with(|| self.client.thread.shared.clock.now());
    }

    /// It has its turn, or will have none.
    pub(super) fn has_turn(&mut self) {
        let now = self.client.thread.shared.clock.now();
        self.wait += self.in_line.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
    }

    /// The rules have decided; `waited`: not at once.
    pub(super) fn decided(&mut self, outcome: &Outcome, waited: bool) {
        if waited {
            self.has_turn();
        }
        self.in_line = None;
        let position = match outcome.cause() {
            Cause::Limit(rule) | Cause::Ban(rule) | Cause::Strain(rule) => Some(rule),
            _ => outcome.decisions().find(|(_, said)| !said.shadow).map(|(_, said)| said.rule),
        };
        let rule = position.and_then(|rule| outcome.rules().get(rule));
        self.rule = rule.map(|rule| rule.name.clone());
        // A rule without a key has one count for all, and nothing to tell them apart by.
        let keyed = position.filter(|_| rule.is_some_and(|rule| !rule.key.is_empty()));
        self.key_hash = keyed.and_then(|rule| outcome.key_hash(rule));
        self.shadow = outcome.would_refuse().next().map(|(rule, _)| rule.name.clone());
        self.store_lost = outcome.is_degraded();
        self.verdict = Some(match (outcome.is_admitted(), outcome.cause(), outcome.reply()) {
            (true, ..) => Verdict::Allowed,
            (_, Cause::DenyList(_), _) => Verdict::Denied,
            (_, Cause::Ban(_), _) => Verdict::Banned,
            (_, _, Some(Reply::Degrade { .. })) => Verdict::Degraded,
            (_, _, Some(Reply::Redirect { .. })) => Verdict::Redirected,
            _ => Verdict::Refused,
        });
    }

    /// The request is sent on with these headers, which tell its id: whatever the client said of them.
    pub(super) fn sent(&mut self, upstream: &str, fate: Option<Arc<BodyFate>>, headers: &mut http::HeaderMap) {
        headers.insert(&X_REQUEST_ID, self.id.header().clone());
        self.upstream = Some(upstream.to_owned());
        self.sent = Some(self.client.thread.shared.clock.now());
        self.fate = fate;
    }

    /// It is sent to this server now.
    pub(super) fn tries(&mut self, server: &Arc<Server>) {
        self.server = Some(Arc::clone(server));
        self.attempts += 1;
    }

    /// The server has answered.
    pub(super) fn answered(&mut self) {
        let now = self.client.thread.shared.clock.now();
        self.upstream_time = self.sent.map(|sent| now.saturating_since(sent));
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        self.in_line = None;
        self.verdict = Some(Verdict::Failed(failure.word()));
    }

    /// The head of the answer, which is told the request's id.
    pub(super) fn head(&mut self, status: StatusCode, headers: &mut http::HeaderMap) {
        self.status = Some(status);
        headers.insert(&X_REQUEST_ID, self.id.header().clone());
    }

    /// So much of the answer's body has gone.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.response_bytes += bytes as u64;
    }

    /// The answer has ended as it should.
    pub(crate) fn ended(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Who is over while it waits stood in line to the last.
        self.has_turn();
        let Some(log) = &self.client.thread.log else { return };
        let duration = self.client.thread.shared.clock.now().saturating_since(self.begun);
        let target = self.target.path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
        log.lines.write(&Line {
            time: self.time,
            request_id: self.id.as_str(),
            client: self.address,
            peer: self.client.origin.address,
            tls: self.client.origin.is_encrypted(),
            method: self.method.as_str(),
            target,
            host: &self.host,
            version: self.version,
            referer: self.referer.as_ref().map(HeaderValue::as_bytes),
            user_agent: self.user_agent.as_ref().map(HeaderValue::as_bytes),
            request_bytes: self.fate.as_ref().map_or(0, |fate| fate.bytes()),
            status: self.status.map_or(ABANDONED, |status| status.as_u16()),
            response_bytes: self.response_bytes,
            duration,
            wait: self.wait,
            served_by: self.upstream.as_deref().map(|upstream| ServedBy {
                upstream,
                server: self.server.as_ref().map(|server| server.url()),
                time: self.upstream_time,
                attempts: self.attempts,
            }),
            verdict: self.verdict.unwrap_or(Verdict::Failed("abandoned")),
            rule: self.rule.as_deref(),
            key_hash: self.key_hash,
            shadow: self.shadow.as_deref(),
            store_lost: self.store_lost,
            aborted: !self.has_ended,
        });
    }
}
