//! Shared state of a limit layer: maps HTTP requests to rule requests and decides them.

use std::fmt;
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use sluicegate_engine::rule::{self, Attribute, Direction};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_http_adapter::attributes::{AttributeSources, HttpAttributes};
use sluicegate_http_adapter::headers::RateLimitFields;
use sluicegate_http_adapter::identity::Forwarding;
use sluicegate_http_adapter::{Protocol, Renderer, RequestGuard, normalize_path};

use super::peer;

/// State shared by all clones of a layer.
pub(super) struct LayerState {
    pub(super) sluice: Sluice,
    pub(super) renderer: Renderer,
    pub(super) forwarding: Forwarding,
    pub(super) sources: AttributeSources,
    /// Name of the service in rules.
    pub(super) service: String,
    pub(super) unknown_peers: AtomicU64,
}

/// Decision on a request.
pub(super) enum LayerDecision {
    /// Admitted. The response gets these header fields and keeps the guard.
    Admit(RateLimitFields, Option<Box<RequestGuard>>),
    /// Refused with this response.
    Refuse(Box<Response<Bytes>>),
    /// Queued.
    Wait(Box<Admission>),
}

/// Key for all unknown peers: an unknown client must still be limited.
const UNKNOWN_PEER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl LayerState {
    pub(super) const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    pub(super) const fn renderer(&self) -> &Renderer {
        &self.renderer
    }

    pub(super) fn unknown_peers(&self) -> u64 {
        self.unknown_peers.load(Ordering::Relaxed)
    }

    /// Rules with a key attribute that nothing provides, with the attribute's name.
    pub(super) fn missing_attributes(&self) -> Vec<(String, String)> {
        let incoming = self.sluice.rules().into_iter().filter(|rule| rule.direction == Direction::Inbound);
        let lacking = incoming.filter_map(|rule| {
            let mut names = rule.key.iter().filter_map(|part| match &part.attribute {
                Attribute::Custom(name) => Some(name),
                _ => None,
            });
            let name = names.find(|name| !self.sources.provides(name))?.clone();
            Some((rule.name, name))
        });
        lacking.collect()
    }

    /// Decides a request by the rules, on the fast path if possible.
    pub(super) fn decide<B>(&self, request: &Request<B>) -> LayerDecision {
        let client = self.client(request);
        let fast_path = self.sluice.fast_path();
        fast_path.prefetch_client(client);
        let path = normalize_path(request.uri().path());
        let described = rule::Request {
            direction: Direction::Inbound,
            service: &self.service,
            method: request.method().as_str(),
            host: host(request),
            path: &path,
            client_ip: Some(client),
            cost: 1,
            attributes: &HttpAttributes::new(request, &self.sources),
        };
        if let Some(decision) = fast_path.try_decide(&described) {
            if decision.is_admitted() {
                return LayerDecision::Admit(self.renderer.fields(&decision), None);
            }
            let refusal = self.renderer.refuse(&decision, Protocol::of(request.headers()));
            return LayerDecision::Refuse(Box::new(without_body_for_head(request, refusal)));
        }
        drop(fast_path);
        self.decide_full(request, &described)
    }

    /// Decides a request that the fast path does not cover.
    #[inline(never)]
    fn decide_full<B>(&self, request: &Request<B>, described: &rule::Request<'_>) -> LayerDecision {
        let mut admission = self.sluice.admit(described);
        // An outcome is large: it is read in place, and only moved if it must be kept.
        match admission.decided() {
            Some(outcome) if outcome.is_admitted() => {
                let fields = self.renderer.fields(outcome);
                let guard = match outcome.holds_resources() {
                    true => admission.take().map(|outcome| guard(outcome, request.headers())),
                    false => None,
                };
                LayerDecision::Admit(fields, guard)
            }
            Some(outcome) => LayerDecision::Refuse(Box::new(self.refuse(request, outcome))),
            None => LayerDecision::Wait(Box::new(admission)),
        }
    }

    /// The response to a refused request.
    pub(super) fn refuse<B>(&self, request: &Request<B>, outcome: &Outcome) -> Response<Bytes> {
        without_body_for_head(request, self.renderer.refuse(outcome, Protocol::of(request.headers())))
    }

    fn client<B>(&self, request: &Request<B>) -> IpAddr {
        match peer::find(request.extensions()) {
            Some(peer) => self.forwarding.client_ip(peer.ip(), request.headers()),
            None => {
                self.unknown_peers.fetch_add(1, Ordering::Relaxed);
                UNKNOWN_PEER
            }
        }
    }
}

/// Guard of an admitted request with these headers.
pub(super) fn guard(outcome: Outcome, headers: &HeaderMap) -> Box<RequestGuard> {
    let mut guard = RequestGuard::new(outcome);
    // The service reads the body; its length is only known if declared.
    let content_length = || headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    if let Some(length) = content_length() {
        guard.add_request_bytes(length);
    }
    Box::new(guard)
}

/// Removes the body of a response to HEAD.
fn without_body_for_head<B>(request: &Request<B>, mut response: Response<Bytes>) -> Response<Bytes> {
    if request.method() == Method::HEAD && !response.body().is_empty() {
        // Over HTTP/2 hyper would send the body, and the client would see a broken stream.
        let body = mem::take(response.body_mut());
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
    }
    response
}

/// The requested host: from the URI if it has one, as in HTTP/2, else from the `Host` header.
fn host<B>(request: &Request<B>) -> &str {
    let of_header = || request.headers().get(header::HOST)?.to_str().ok();
    request.uri().host().or_else(of_header).unwrap_or_default()
}

impl fmt::Debug for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerState")
            .field("sluice", &self.sluice)
            .field("renderer", &self.renderer)
            .field("forwarding", &self.forwarding)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
