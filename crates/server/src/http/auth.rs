//! `/v1/auth`: forward auth for nginx, Traefik and Caddy.
//!
//! The proxy sends a call with the headers of the original request, and describes that request in additional
//! headers. There are three styles:
//!
//! | proxy | method | target | host |
//! |---|---|---|---|
//! | Traefik `forwardAuth`, Caddy `forward_auth` | `X-Forwarded-Method` | `X-Forwarded-Uri` | `X-Forwarded-Host` |
//! | nginx `auth_request` | `X-Original-Method` | `X-Original-URI` | `Host` |
//! | ingress-nginx `auth-url` | `X-Original-Method` | `X-Original-URL` | in that URL |
//!
//! A proxy replaces the headers it uses and passes all others on as the client sent them. A call that mixes
//! styles is therefore refused: one of them comes from the client, with no way to find out which. Calls from peers
//! that are not trusted proxies are refused.
//!
//! The decision is the status: 200 or the refusal. If a rule has a queue, the response waits as the request
//! would. Two features are not available, since the proxy does not report the end of a request: permits are
//! released with the response, so a concurrency limit only counts permits held elsewhere at that time; and
//! estimated costs are not settled.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::rule::{Attribute, Attributes, Direction, Request};
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_http_adapter::attributes::request_attribute;
use sluicegate_http_adapter::identity::Forwarding;
use sluicegate_http_adapter::{Protocol, Renderer, normalize_path};

use super::api::SECRET;
use super::problem::{ApiErrorKind, Problem, quote_input};

/// Carries the original refusal status if the response has a replacement status.
const STATUS_HEADER: HeaderName = HeaderName::from_static("x-sluicegate-status");

const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

/// Forward auth handler.
pub(super) struct ForwardAuth {
    pub(super) forwarding: Forwarding,
    pub(super) renderer: Renderer,
    /// Set when callers must send a secret.
    pub(super) has_secret: bool,
}

impl ForwardAuth {
    /// Decides the request that a call describes.
    pub(super) async fn handle(
        &self,
        sluice: &Sluice,
        call: &Parts,
        peer: SocketAddr,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        let refuse_with = refuse_with(proxy_query(call))?;
        let mut admission = self.admit(sluice, call, peer)?;
        let outcome = match admission.take() {
            Some(outcome) => outcome,
            None => admission.await,
        };
        Ok(self.render(&outcome, refuse_with).map(Full::new))
    }

    fn admit(&self, sluice: &Sluice, call: &Parts, peer: SocketAddr) -> Result<Admission, Problem> {
        if !self.forwarding.trusted().contains(peer.ip()) {
            let detail =
                format!("{} is not a trusted proxy: add it to `trusted_proxies` if it is one of yours", peer.ip());
            return Err(Problem::new(ApiErrorKind::Untrusted, detail));
        }
        let original = OriginalRequest::from_headers(&call.headers, self.has_secret)?;
        let path = normalize_path(original.target);
        let described = Request {
            direction: Direction::Inbound,
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
            let mut response = Response::new(Bytes::new());
            self.renderer.fields(outcome).write(response.headers_mut());
            return response;
        }
        // Never as gRPC: its refusals have status 200, and the proxy would admit the request.
        let mut response = self.renderer.refuse(outcome, Protocol::Http);
        if response.status().is_success() {
            // The same holds for a rule's substitute response.
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        }
        if let Some(status) = refuse_with {
            let original_status = HeaderValue::from(response.status().as_u16());
            response.headers_mut().insert(STATUS_HEADER, original_status);
            *response.status_mut() = status;
        }
        response
    }
}

/// The query that the proxy itself sends. Caddy forwards the client's query unless configured otherwise, and
/// repeats it in `X-Forwarded-Uri`.
fn proxy_query(call: &Parts) -> Option<&str> {
    let client_query = call.headers.get(FORWARDED_URI).and_then(|uri| {
        let uri = str::from_utf8(uri.as_bytes()).ok()?;
        // The fragment is not part of the query.
        let uri = uri.split_once('#').map_or(uri, |(uri, _)| uri);
        Some(uri.split_once('?')?.1)
    });
    call.uri.query().filter(|query| Some(*query) != client_query)
}

/// The replacement refusal status for proxies that accept only some: `?refuse=403`.
fn refuse_with(query: Option<&str>) -> Result<Option<StatusCode>, Problem> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    match query {
        "refuse=401" => Ok(Some(StatusCode::UNAUTHORIZED)),
        "refuse=403" => Ok(Some(StatusCode::FORBIDDEN)),
        other => {
            let detail = format!("invalid query {}: use ?refuse=401, ?refuse=403 or none", quote_input(other));
            Err(Problem::new(ApiErrorKind::Invalid, detail))
        }
    }
}

/// The original request described by a call.
struct OriginalRequest<'r> {
    method: &'r str,
    target: &'r str,
    host: &'r str,
    headers: &'r HeaderMap,
    has_secret: bool,
}

impl<'r> OriginalRequest<'r> {
    fn from_headers(headers: &'r HeaderMap, has_secret: bool) -> Result<Self, Problem> {
        let is_present = |name: &HeaderName| headers.contains_key(name);
        let forwarded = is_present(&FORWARDED_METHOD) || is_present(&FORWARDED_URI);
        let (uri, url) = (is_present(&ORIGINAL_URI), is_present(&ORIGINAL_URL));
        let original = uri || url || is_present(&ORIGINAL_METHOD);
        let required = |name: &HeaderName| {
            let missing =
                || Problem::new(ApiErrorKind::Invalid, format!("`{name}` is missing: configure the proxy to send it"));
            single_value(headers, name)?.filter(|value| !value.is_empty()).ok_or_else(missing)
        };
        let host = |name: &HeaderName| Ok::<_, Problem>(single_value(headers, name)?.unwrap_or_default());
        let (method, target, host) = match (forwarded, original) {
            (true, true) => return Err(conflicting_headers("X-Forwarded-* and X-Original-*")),
            (false, true) if uri && url => return Err(conflicting_headers("X-Original-URI and X-Original-URL")),
            (true, false) => (required(&FORWARDED_METHOD)?, required(&FORWARDED_URI)?, host(&FORWARDED_HOST)?),
            (false, true) if url => {
                let (host, target) = host_and_target(required(&ORIGINAL_URL)?)?;
                (required(&ORIGINAL_METHOD)?, target, host)
            }
            (false, true) => (required(&ORIGINAL_METHOD)?, required(&ORIGINAL_URI)?, host(&header::HOST)?),
            (false, false) => {
                let detail = "the original request is missing: configure the proxy to send X-Forwarded-Method and \
                              X-Forwarded-Uri, or X-Original-Method and X-Original-URI or X-Original-URL";
                return Err(Problem::new(ApiErrorKind::Invalid, detail));
            }
        };
        Ok(Self { method, target, host, headers, has_secret })
    }

    /// True if the header carries our secret and thus does not come from the client.
    fn is_secret_header(&self, name: &str) -> bool {
        let secret_header = if self.headers.contains_key(SECRET) { SECRET } else { header::AUTHORIZATION };
        self.has_secret && name.eq_ignore_ascii_case(secret_header.as_str())
    }
}

fn conflicting_headers(headers: &str) -> Problem {
    let detail = format!("conflicting headers {headers}: configure the proxy to clear those it does not set");
    Problem::new(ApiErrorKind::Untrusted, detail)
}

/// Splits an absolute URL into host and request target.
fn host_and_target(url: &str) -> Result<(&str, &str), Problem> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.and_then(|rest| rest.split_at_checked(rest.find('/')?)).ok_or_else(|| {
        let detail =
            format!("invalid `{ORIGINAL_URL}` {}: configure the proxy to send scheme, host and path", quote_input(url));
        Problem::new(ApiErrorKind::Invalid, detail)
    })
}

/// The single value of a header. With several values, one comes from the client.
fn single_value<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r str>, Problem> {
    let mut values = headers.get_all(name).into_iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        let detail = format!("duplicate `{name}`: configure the proxy to replace it");
        return Err(Problem::new(ApiErrorKind::Untrusted, detail));
    }
    let text = |value: &'r HeaderValue| {
        let not_utf8 =
            |_| Problem::new(ApiErrorKind::Invalid, format!("`{name}` is not UTF-8: configure the proxy to escape it"));
        std::str::from_utf8(value.as_bytes()).map_err(not_utf8)
    };
    first.map(text).transpose()
}

impl Attributes for OriginalRequest<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        if let Attribute::Header(name) = attribute {
            if name.eq_ignore_ascii_case(header::HOST.as_str()) {
                return Some(Cow::Borrowed(self.host));
            }
            if self.is_secret_header(name) {
                return None;
            }
        }
        let target = self.target.split_once('#').map_or(self.target, |(target, _)| target);
        request_attribute(attribute, self.headers, target.split_once('?').map(|(_, query)| query))
    }
}
