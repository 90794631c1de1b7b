//! `/v1/auth`: forward auth, as nginx, Traefik and Caddy ask.
//!
//! The proxy asks about a request by a call with the request's headers, and says in further headers which
//! request that is. There are three ways to say it:
//!
//! | proxy | method | target | host |
//! |---|---|---|---|
//! | Traefik `forwardAuth`, Caddy `forward_auth` | `X-Forwarded-Method` | `X-Forwarded-Uri` | `X-Forwarded-Host` |
//! | nginx `auth_request` | `X-Original-Method` | `X-Original-URI` | `Host` |
//! | ingress-nginx `auth-url` | `X-Original-Method` | `X-Original-URL` | in that URL |
//!
//! A proxy replaces the headers it uses, and passes on all others as the client sent them. So a call that
//! uses several ways is refused: one of them is the client's, and nobody knows which. Who is no trusted proxy
//! is refused altogether.
//!
//! The decision is the status: 200 or the refusal. The answer waits where a rule has a queue, as the request
//! would. Two things cannot be had this way, since the proxy does not tell when a request ends: permits are
//! given back with the answer, so a concurrency limit only counts what others hold at that moment; and what a
//! rule reserves as an estimate stands.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::rule::{Attribute, Attributes, Request, Side};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_http::attributes::sent;
use sluicegate_http::identity::Forwarding;
use sluicegate_http::{Protocol, Renderer, normal_path};

use super::api::SECRET;
use super::problem::{Kind, Problem, shown};

/// What a refusal's status would have been, where it is another.
const STATUS: HeaderName = HeaderName::from_static("x-sluicegate-status");

const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

/// What forward auth needs.
pub(super) struct Auth {
    pub(super) forwarding: Forwarding,
    pub(super) renderer: Renderer,
    /// Whether whoever asks must show a secret.
    pub(super) has_secret: bool,
}

impl Auth {
    /// Decides about the request that a call describes.
    pub(super) async fn answer(
        &self,
        sluice: &Sluice,
        call: &Parts,
        peer: SocketAddr,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let refuse_with = refuse_with(own_query(call))?;
        let mut admission = self.admit(sluice, call, peer)?;
        let outcome = match admission.take() {
            Some(outcome) => outcome,
            None => admission.await,
        };
        Ok(self.render(&outcome, refuse_with).map(Full::new))
    }

    fn admit(&self, sluice: &Sluice, call: &Parts, peer: SocketAddr) -> Result<Admission, Problem> {
        if !self.forwarding.trusted().contains(peer.ip()) {
            let detail = format!("{} is no trusted proxy: add it to `trusted_proxies` if it is yours", peer.ip());
            return Err(Problem::new(Kind::Untrusted, detail));
        }
        let original = Original::of(&call.headers, self.has_secret)?;
        let path = normal_path(original.target);
        let described = Request {
            side: Side::Inbound,
            service: "",
            method: original.method,
            host: original.host,
            path: &path,
            client_ip: Some(self.forwarding.client_ip(peer.ip(), &call.headers)),
            cost: 1,
            attributes: &original,
        };
        Ok(sluice.admit(&described))
    }

    fn render(&self, outcome: &Outcome, refuse_with: Option<StatusCode>) -> Response<Bytes> {
        if outcome.is_admitted() {
            let mut answer = Response::new(Bytes::new());
            self.renderer.fields(outcome).write(answer.headers_mut());
            return answer;
        }
        // Never as gRPC, whose refusals have the status 200: the proxy would let the request pass.
        let mut answer = self.renderer.refuse(outcome, Protocol::Http);
        if answer.status().is_success() {
            // Nor as the substitute data of the rule.
            *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        }
        if let Some(status) = refuse_with {
            let meant = HeaderValue::from(answer.status().as_u16());
            answer.headers_mut().insert(STATUS, meant);
            *answer.status_mut() = status;
        }
        answer
    }
}

/// What the proxy itself says behind the `?`. Caddy asks with the client's query unless it is told another, and says in
/// `X-Forwarded-Uri` which that is.
fn own_query(call: &Parts) -> Option<&str> {
    let of_client = call.headers.get(FORWARDED_URI).and_then(|uri| {
        let uri = str::from_utf8(uri.as_bytes()).ok()?;
        // What is behind a `#` is not asked for.
        let uri = uri.split_once('#').map_or(uri, |(uri, _)| uri);
        Some(uri.split_once('?')?.1)
    });
    call.uri.query().filter(|query| Some(*query) != of_client)
}

/// The status to refuse with, if the proxy understands only some: `?refuse=403`.
fn refuse_with(query: Option<&str>) -> Result<Option<StatusCode>, Problem> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    match query {
        "refuse=401" => Ok(Some(StatusCode::UNAUTHORIZED)),
        "refuse=403" => Ok(Some(StatusCode::FORBIDDEN)),
        other => {
            let detail = format!("{} is not understood: write ?refuse=401, ?refuse=403 or nothing", shown(other));
            Err(Problem::new(Kind::Invalid, detail))
        }
    }
}

/// The request a call is about.
struct Original<'r> {
    method: &'r str,
    target: &'r str,
    host: &'r str,
    headers: &'r HeaderMap,
    has_secret: bool,
}

impl<'r> Original<'r> {
    fn of(headers: &'r HeaderMap, has_secret: bool) -> Result<Self, Problem> {
        let is_there = |name: &HeaderName| headers.contains_key(name);
        let forwarded = is_there(&FORWARDED_METHOD) || is_there(&FORWARDED_URI);
        let (uri, url) = (is_there(&ORIGINAL_URI), is_there(&ORIGINAL_URL));
        let original = uri || url || is_there(&ORIGINAL_METHOD);
        let needed = |name: &HeaderName| {
            let missing = || Problem::new(Kind::Invalid, format!("`{name}` is missing: have the proxy send it"));
            single(headers, name)?.filter(|value| !value.is_empty()).ok_or_else(missing)
        };
        let host = |name: &HeaderName| Ok::<_, Problem>(single(headers, name)?.unwrap_or_default());
        let (method, target, host) = match (forwarded, original) {
            (true, true) => return Err(told_twice("X-Forwarded-* and by X-Original-*")),
            (false, true) if uri && url => return Err(told_twice("X-Original-URI and by X-Original-URL")),
            (true, false) => (needed(&FORWARDED_METHOD)?, needed(&FORWARDED_URI)?, host(&FORWARDED_HOST)?),
            (false, true) if url => {
                let (host, target) = host_and_target(needed(&ORIGINAL_URL)?)?;
                (needed(&ORIGINAL_METHOD)?, target, host)
            }
            (false, true) => (needed(&ORIGINAL_METHOD)?, needed(&ORIGINAL_URI)?, host(&header::HOST)?),
            (false, false) => {
                let detail = "the request is not told: have the proxy send X-Forwarded-Method and X-Forwarded-Uri, or \
                              X-Original-Method and X-Original-URI or X-Original-URL";
                return Err(Problem::new(Kind::Invalid, detail));
            }
        };
        Ok(Self { method, target, host, headers, has_secret })
    }

    /// Whether a header of the call is not the client's: it shows the secret to us.
    fn is_ours(&self, name: &str) -> bool {
        let shows = if self.headers.contains_key(SECRET) { SECRET } else { header::AUTHORIZATION };
        self.has_secret && name.eq_ignore_ascii_case(shows.as_str())
    }
}

fn told_twice(ways: &str) -> Problem {
    let detail = format!("the request is told twice, by {ways}: have the proxy clear those it does not set");
    Problem::new(Kind::Untrusted, detail)
}

/// The host of a whole URL, and what follows it.
fn host_and_target(url: &str) -> Result<(&str, &str), Problem> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.and_then(|rest| rest.split_at_checked(rest.find('/')?)).ok_or_else(|| {
        let detail = format!("`{ORIGINAL_URL}` is {}: have the proxy send scheme, host and path", shown(url));
        Problem::new(Kind::Invalid, detail)
    })
}

/// The one line of a header. Of several, one is the client's.
fn single<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r str>, Problem> {
    let mut lines = headers.get_all(name).into_iter();
    let (first, second) = (lines.next(), lines.next());
    if second.is_some() {
        let detail = format!("`{name}` is there twice: have the proxy replace it");
        return Err(Problem::new(Kind::Untrusted, detail));
    }
    let text = |line: &'r HeaderValue| {
        let refusal = |_| Problem::new(Kind::Invalid, format!("`{name}` is not text: have the proxy escape it"));
        std::str::from_utf8(line.as_bytes()).map_err(refusal)
    };
    first.map(text).transpose()
}

impl Attributes for Original<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        if let Attribute::Header(name) = attribute {
            if name.eq_ignore_ascii_case(header::HOST.as_str()) {
                return Some(Cow::Borrowed(self.host));
            }
            if self.is_ours(name) {
                return None;
            }
        }
        let target = self.target.split_once('#').map_or(self.target, |(target, _)| target);
        sent(attribute, self.headers, target.split_once('?').map(|(_, query)| query))
    }
}
