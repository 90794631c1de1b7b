//! Access-log record of one request; its line is written when the response has ended.
//!
//! Exists only if an access log is configured.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HeaderName, REFERER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version};
use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::Reply;
use sluicegate_engine::sluice::{Cause, RuleDecision};
use sluicegate_http_adapter::DecisionView;

use crate::client_context::ClientContext;
use crate::error::ProxyError;
use crate::head;
use crate::log::request_id::RequestId;
use crate::log::{LogEntry, LogVerdict, ServedBy};
use crate::request_body::BodyStatus;
use crate::upstream::Server;

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Status of a request that ended before any response; the same as in nginx.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Access-log record of one request.
pub(crate) struct AccessRecord {
    client: Arc<ClientContext>,
    id: RequestId,
    time: SystemTime,
    started_at: Timestamp,
    address: IpAddr,
    method: Method,
    target: Uri,
    host: String,
    version: Version,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    body_status: Option<Arc<BodyStatus>>,
    /// Status of the response, once it has started.
    status: Option<StatusCode>,
    response_bytes: u64,
    /// Time spent in queues that the request has left.
    queue_time: Duration,
    /// Start of the current wait in a queue.
    queued_since: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    upstream: Option<String>,
    server: Option<Arc<Server>>,
    upstream_time: Option<Duration>,
    attempts: u32,
    /// Verdict, once known.
    verdict: Option<LogVerdict>,
    rule: Option<String>,
    key_hash: Option<u64>,
    shadow: Option<String>,
    degraded: bool,
    /// True if the response ended properly.
    is_complete: bool,
}

impl AccessRecord {
    /// Starts a record if there is a log. Assigns a request ID, unless a trusted proxy has set one.
    pub(crate) fn begin<B>(client: &Arc<ClientContext>, request: &mut Request<B>) -> Option<Box<Self>> {
        let log = client.worker.log.as_ref()?;
        let received = request.headers().get(&X_REQUEST_ID).filter(|_| client.origin.is_trusted());
        let id = received.and_then(RequestId::accept).unwrap_or_else(|| log.ids.next());
        request.headers_mut().insert(&X_REQUEST_ID, id.header().clone());
        let header = |name: HeaderName| request.headers().get(name).cloned();
        let gateway = &client.worker.gateway;
        let started_at = gateway.clock.now();
        Some(Box::new(Self {
            id,
            time: SystemTime::now(),
            started_at,
            address: client.origin.client_ip(&gateway.forwarding, request.headers()),
            method: request.method().clone(),
            target: request.uri().clone(),
            host: head::authority(request).to_owned(),
            version: request.version(),
            referer: header(REFERER),
            user_agent: header(USER_AGENT),
            body_status: None,
            status: None,
            response_bytes: 0,
            queue_time: Duration::ZERO,
            queued_since: Some(started_at),
            sent_at: None,
            upstream: None,
            server: None,
            upstream_time: None,
            attempts: 0,
            verdict: None,
            rule: None,
            key_hash: None,
            shadow: None,
            degraded: false,
            is_complete: false,
            client: Arc::clone(client),
        }))
    }

    /// The request waits in a queue; no effect if it already does.
    pub(crate) fn enter_queue(&mut self) {
        self.queued_since.get_or_insert_with(|| self.client.worker.gateway.clock.now());
    }

    /// The request has left the queue, admitted or not.
    pub(crate) fn leave_queue(&mut self) {
        let now = self.client.worker.gateway.clock.now();
        self.queue_time += self.queued_since.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
    }

    /// Records the decision of the rules; `was_queued` if it was not immediate.
    pub(crate) fn record_decision(&mut self, decision: &impl DecisionView, was_queued: bool) {
        if was_queued {
            self.leave_queue();
        }
        self.queued_since = None;
        let rules = decision.rules();
        let enforced = || decision.rule_decisions().find(|rule_decision| !rule_decision.shadow).map(|it| it.rule);
        let position = decision.refusing_rule().or_else(enforced);
        let rule = position.and_then(|rule| rules.get(rule));
        self.rule = rule.map(|rule| rule.name.clone());
        // A rule without a key has a single counter, so there is no key to report.
        let keyed = position.filter(|_| rule.is_some_and(|rule| !rule.key.is_empty()));
        self.key_hash = keyed.and_then(|rule| decision.key_hash(rule));
        let would_refuse = |it: &RuleDecision| it.shadow && !it.decision.is_admitted();
        let shadow = decision.rule_decisions().find(would_refuse).and_then(|it| rules.get(it.rule));
        self.shadow = shadow.map(|rule| rule.name.clone());
        self.degraded = decision.rule_decisions().any(|it| it.degraded);
        let reply = decision.refusing_rule().and_then(|rule| rules.get(rule)?.on_limit.reply.as_ref());
        self.verdict = Some(match (decision.verdict().is_admitted(), decision.cause(), reply) {
            (true, ..) => LogVerdict::Allowed,
            (_, Cause::DenyList(_), _) => LogVerdict::Denied,
            (_, Cause::Ban(_), _) => LogVerdict::Banned,
            (_, _, Some(Reply::Degrade { .. })) => LogVerdict::Degraded,
            (_, _, Some(Reply::Redirect { .. })) => LogVerdict::Redirected,
            _ => LogVerdict::Refused,
        });
    }

    /// Records that the request is forwarded, and sets the request ID in its headers, even if the client's
    /// `Connection` header named it.
    pub(crate) fn record_sent(
        &mut self,
        upstream: &str,
        body_status: Option<Arc<BodyStatus>>,
        headers: &mut http::HeaderMap,
    ) {
        headers.insert(&X_REQUEST_ID, self.id.header().clone());
        self.upstream = Some(upstream.to_owned());
        self.sent_at = Some(self.client.worker.gateway.clock.now());
        self.body_status = body_status;
    }

    /// Records an attempt on this server.
    pub(crate) fn record_attempt(&mut self, server: &Arc<Server>) {
        self.server = Some(Arc::clone(server));
        self.attempts += 1;
    }

    /// Records the time until the upstream's response.
    pub(crate) fn record_upstream_time(&mut self) {
        let now = self.client.worker.gateway.clock.now();
        self.upstream_time = self.sent_at.map(|sent| now.saturating_since(sent));
    }

    pub(crate) fn record_error(&mut self, error: &ProxyError) {
        self.queued_since = None;
        self.verdict = Some(LogVerdict::Failed(error.code()));
    }

    /// Records the status of the response, and sets the request ID in its headers.
    pub(crate) fn record_response(&mut self, status: StatusCode, headers: &mut http::HeaderMap) {
        self.status = Some(status);
        headers.insert(&X_REQUEST_ID, self.id.header().clone());
    }

    /// Adds bytes of the response body.
    pub(crate) fn add_response_bytes(&mut self, bytes: usize) {
        self.response_bytes += bytes as u64;
    }

    /// Records that the response ended properly.
    pub(crate) fn record_complete(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        // A request that ends while it is queued was queued until now.
        self.leave_queue();
        let Some(log) = &self.client.worker.log else { return };
        let duration = self.client.worker.gateway.clock.now().saturating_since(self.started_at);
        let target = self.target.path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
        log.writer.write(&LogEntry {
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
            request_bytes: self.body_status.as_ref().map_or(0, |body_status| body_status.bytes()),
            status: self.status.map_or(CLIENT_CLOSED_REQUEST, |status| status.as_u16()),
            response_bytes: self.response_bytes,
            duration,
            wait: self.queue_time,
            served_by: self.upstream.as_deref().map(|upstream| ServedBy {
                upstream,
                server: self.server.as_ref().map(|server| server.url()),
                time: self.upstream_time,
                attempts: self.attempts,
            }),
            verdict: self.verdict.unwrap_or(LogVerdict::Failed("abandoned")),
            rule: self.rule.as_deref(),
            key_hash: self.key_hash,
            shadow: self.shadow.as_deref(),
            degraded: self.degraded,
            aborted: !self.is_complete,
        });
    }
}
