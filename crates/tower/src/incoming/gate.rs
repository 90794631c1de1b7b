//! From a request to what rules look at.

use std::fmt;
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use sluicegate_engine::rule::{self, Attribute, Side};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_http::attributes::{AttributeSources, HttpAttributes};
use sluicegate_http::headers::Fields;
use sluicegate_http::identity::Forwarding;
use sluicegate_http::{Protocol, Renderer, normal_path};

use super::held::Held;
use super::peer;

/// What all clones of a layer share.
pub(super) struct Gate {
    pub(super) sluice: Sluice,
    pub(super) renderer: Renderer,
    pub(super) forwarding: Forwarding,
    pub(super) sources: AttributeSources,
    /// What rules know the service as.
    pub(super) service: String,
    pub(super) unknown_peers: AtomicU64,
}

/// What the rules say of a request.
pub(super) enum Answer {
    /// It may go on. Its answer is told so much, and keeps what it holds.
    Go(Fields, Option<Box<Held>>),
    /// It may not, and is answered this.
    Refused(Box<Response<Bytes>>),
    /// There is something to wait for.
    Wait(Box<Admission>),
}

/// Stands for every peer that nobody tells. Not to know the client must not mean not to limit it.
const SOMEBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Gate {
    pub(super) const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    pub(super) const fn renderer(&self) -> &Renderer {
        &self.renderer
    }

    pub(super) fn unknown_peers(&self) -> u64 {
        self.unknown_peers.load(Ordering::Relaxed)
    }

    /// Rules keyed by what nothing provides, with the attribute's name.
    pub(super) fn unprovided(&self) -> Vec<(String, String)> {
        let incoming = self.sluice.rules().into_iter().filter(|rule| rule.side == Side::Inbound);
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

    /// Asks the rules.
    pub(super) fn ask<B>(&self, request: &Request<B>) -> Answer {
        let client = self.client(request);
        let waving = self.sluice.waving();
        waving.expect_client(client);
        let path = normal_path(request.uri().path());
        let described = rule::Request {
            side: Side::Inbound,
            service: &self.service,
            method: request.method().as_str(),
            host: host(request),
            path: &path,
            client_ip: Some(client),
            cost: 1,
            attributes: &HttpAttributes::new(request, &self.sources),
        };
        if let Some(waved) = waving.wave(&described) {
            if waved.is_admitted() {
                return Answer::Go(self.renderer.fields_waved(&waved), None);
            }
            let refusal = self.renderer.refuse_waved(&waved, Protocol::of(request.headers()));
            return Answer::Refused(Box::new(without_body_for_head(request, refusal)));
        }
        drop(waving);
        self.ask_fully(request, &described)
    }

    /// Asks the rules where it is not enough to be waved through or off.
    #[inline(never)]
    fn ask_fully<B>(&self, request: &Request<B>, described: &rule::Request<'_>) -> Answer {
        let mut admission = self.sluice.admit(described);
        // An outcome is large: it is looked at where it is, and only moved if it must be kept.
        match admission.decided() {
            Some(outcome) if outcome.is_admitted() => {
                let fields = self.renderer.fields(outcome);
                let held = match outcome.is_held() {
                    true => admission.take().map(|outcome| Held::of(outcome, request.headers())),
                    false => None,
                };
                Answer::Go(fields, held)
            }
            Some(outcome) => Answer::Refused(Box::new(self.refuse(request, outcome))),
            None => Answer::Wait(Box::new(admission)),
        }
    }

    /// What is answered to a request that was refused.
    pub(super) fn refuse<B>(&self, request: &Request<B>, outcome: &Outcome) -> Response<Bytes> {
        without_body_for_head(request, self.renderer.refuse(outcome, Protocol::of(request.headers())))
    }

    fn client<B>(&self, request: &Request<B>) -> IpAddr {
        match peer::find(request.extensions()) {
            Some(peer) => self.forwarding.client_ip(peer.ip(), request.headers()),
            None => {
                self.unknown_peers.fetch_add(1, Ordering::Relaxed);
                SOMEBODY
            }
        }
    }
}

/// The answer, or its head alone if nothing else was asked for.
fn without_body_for_head<B>(request: &Request<B>, mut answer: Response<Bytes>) -> Response<Bytes> {
    if request.method() == Method::HEAD && !answer.body().is_empty() {
        // Over HTTP/2 hyper would send it, and the client would take that for a broken stream.
        let body = mem::take(answer.body_mut());
        answer.headers_mut().entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
    }
    answer
}

/// The host asked for: of the request line if it names one, as HTTP/2 does, else of the header.
fn host<B>(request: &Request<B>) -> &str {
    let of_header = || request.headers().get(header::HOST)?.to_str().ok();
    request.uri().host().or_else(of_header).unwrap_or_default()
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("sluice", &self.sluice)
            .field("renderer", &self.renderer)
            .field("forwarding", &self.forwarding)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
