//! Forwards a request to an upstream and relays the response.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version};
use http_body::Body;
use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::overload::Completion;
use sluicegate_http_adapter::normalize_path;
use sluicegate_http1::HeaderMode;

use crate::access_record::AccessRecord;
use crate::client_context::ClientContext;
use crate::context::UpstreamTarget;
use crate::error::ProxyError;
use crate::head::{self, HeaderScan};
use crate::pool::{OutgoingRequest, SendFailure, UpstreamResponse};
use crate::request_body::{IncomingBody, RequestBody};
use crate::response::{ProxyResponse, ResponseBody, ResponseGuard, Tunnel};
use crate::upstream::{Server, Upstream};

/// Sends a request to an upstream.
pub(super) async fn forward(
    client: &Arc<ClientContext>,
    upstream_target: &UpstreamTarget,
    request: &mut Request<IncomingBody>,
    scan: HeaderScan,
    mut guard: ResponseGuard,
    access_record: &mut Option<Box<AccessRecord>>,
) -> Result<Box<ProxyResponse>, ProxyError> {
    let pool = &client.worker.pools[upstream_target.upstream];
    let is_http1 = pool.upstream().settings().protocol == UpstreamProtocol::Http1;
    // HTTP/2 has no such protocol switch; the request is forwarded as an ordinary one.
    let is_upgrade =
        scan.upgrade && is_http1 && request.version() == Version::HTTP_11 && head::is_upgrade(request.headers());
    let protocol = request.headers().get(UPGRADE).filter(|_| is_upgrade).cloned();
    let body = take_body(client, request);
    let body_status = body.status();
    guard.track_request_body(body_status.as_ref());
    let target = rewrite_path(request.uri(), upstream_target.strip.as_deref());
    let uses_raw_headers = request.version() < Version::HTTP_2
        && access_record.is_none()
        && !is_upgrade
        && !guard.needs_response_headers();
    let mut outgoing = build_outgoing(client, request, scan, pool.upstream(), body);
    outgoing.is_upgrade = is_upgrade;
    set_upgrade_headers(outgoing.request.headers_mut(), protocol);
    if uses_raw_headers {
        outgoing.header_mode = HeaderMode::Raw;
    }
    if let Some(record) = access_record {
        record.record_sent(&upstream_target.name, body_status.clone(), outgoing.request.headers_mut());
    }
    let address = |outgoing: &mut Request<RequestBody>, server: &Arc<Server>| {
        set_address(outgoing, &target, pool.upstream(), server);
        if let Some(record) = access_record {
            record.record_attempt(server);
        }
    };
    let UpstreamResponse { status, mut head, body } = match pool.send(&mut outgoing, address, client.take_timer()).await
    {
        Ok(response) => response,
        Err(SendFailure { error, timer }) => {
            client.return_timer(timer);
            return Err(match body_status {
                Some(status) if status.timed_out() => ProxyError::ClientTooSlow,
                Some(status) if status.is_broken() => ProxyError::BadRequest("the request body was aborted"),
                _ => {
                    guard.record(Completion::Failed);
                    error
                }
            });
        }
    };
    let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = head.map().get(UPGRADE).filter(|_| is_switch).cloned();
    // Raw headers contain no hop-by-hop headers.
    if head.raw().is_none() && HeaderScan::of(head.map()).hop_by_hop {
        head::strip_response_hop_by_hop(head.map_mut());
    }
    if !is_switch {
        guard.record_response(status, head.map());
    }
    if let Some(mut record) = access_record.take() {
        record.record_upstream_time();
        record.record_response(status, head.map_mut());
        guard.access_record = Some(record);
    }
    if !is_switch {
        return Ok(ProxyResponse::new(status, head, ResponseBody::upstream(body, guard, Arc::clone(client))));
    }
    // Without a request for it, a protocol switch is an error of the server.
    let Some((connection, attempt, timer)) = is_upgrade.then(|| body.into_connection()).flatten() else {
        *access_record = guard.access_record.take();
        return Err(ProxyError::BadResponse { upstream: upstream_target.name.clone() });
    };
    client.return_timer(timer);
    set_upgrade_headers(head.map_mut(), protocol);
    guard.leave_overload_gates(Completion::Ok);
    let tunnel = Tunnel::new(connection, attempt, guard, pool.upstream(), &client.worker.gateway.clock);
    Ok(ProxyResponse::new(status, head, ResponseBody::Tunnel(Box::new(tunnel))))
}

/// Sets the headers of a protocol switch again, after the hop-by-hop headers were removed.
fn set_upgrade_headers(headers: &mut HeaderMap, protocol: Option<HeaderValue>) {
    if let Some(protocol) = protocol {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

/// Takes the body out of a request.
fn take_body(client: &ClientContext, request: &mut Request<IncomingBody>) -> RequestBody {
    let gateway = &client.worker.gateway;
    let body = std::mem::replace(request.body_mut(), IncomingBody::Empty);
    RequestBody::new(body, gateway.timeouts.request_body, &gateway.clock)
}

/// Builds the upstream request, except for its address: removes headers that must not be forwarded and adds the
/// forwarded headers. Takes the headers out of the client's request.
fn build_outgoing(
    client: &ClientContext,
    request: &mut Request<IncomingBody>,
    scan: HeaderScan,
    upstream: &Upstream,
    body: RequestBody,
) -> OutgoingRequest {
    // Most requests have a `Host` that is forwarded unchanged; then it stays in place.
    let keeps_host = scan.hosts > 0 && request.uri().authority().is_none() && !upstream.sends_own_host();
    let host = if keeps_host { None } else { Some(take_host(request)) };
    let version = request.version();
    let headers = request.headers_mut();
    if scan.hop_by_hop {
        head::strip_hop_by_hop(headers);
    }
    if version == Version::HTTP_2 {
        head::join_cookies(headers);
    }
    client.origin.strip_client_ip_header(&client.worker.gateway.forwarding, headers);
    let (host_header, forwarded_host) = if upstream.sends_own_host() { (None, host) } else { (host, None) };
    let raw_headers = if upstream.settings().protocol == UpstreamProtocol::Http1 {
        client.origin.write_forwarded_raw(version, headers, forwarded_host, scan)
    } else {
        client.origin.write_forwarded(version, headers, forwarded_host, scan);
        Bytes::new()
    };
    if let Some(host) = host_header {
        headers.insert(HOST, host);
    }
    if !body.is_empty() {
        if scan.has_expect {
            headers.remove(EXPECT);
        }
        if body.size_hint().exact().is_none() {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    let headers = std::mem::take(headers);
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = request.method().clone();
    *outgoing.headers_mut() = headers;
    OutgoingRequest { request: outgoing, raw_headers, header_mode: HeaderMode::Map, is_upgrade: false }
}

/// Takes the requested host out of the head.
fn take_host(request: &mut Request<IncomingBody>) -> HeaderValue {
    let from_header = request.headers_mut().remove(HOST);
    let from_target = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    from_target.or(from_header).unwrap_or(HeaderValue::from_static(""))
}

/// The path and query to send to the upstream.
fn rewrite_path(uri: &Uri, strip: Option<&str>) -> PathAndQuery {
    let unchanged = || uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let Some(strip) = strip else { return unchanged() };
    let strip_path = |path: &str| {
        let remaining = path.strip_prefix(strip).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        let slash = if remaining.is_empty() { "/" } else { "" };
        let (mark, query) = uri.query().map_or(("", ""), |query| ("?", query));
        PathAndQuery::try_from(format!("{slash}{remaining}{mark}{query}")).ok()
    };
    // The route was matched on the normalized path; the path as sent may be spelled differently.
    strip_path(uri.path()).or_else(|| strip_path(&normalize_path(uri.path()))).unwrap_or_else(unchanged)
}

/// Sets the URI and `Host` of a request for this server.
fn set_address<B>(outgoing: &mut Request<B>, target: &PathAndQuery, upstream: &Upstream, server: &Server) {
    let base = server.base_path();
    let based = (!base.is_empty()).then(|| PathAndQuery::try_from(format!("{base}{target}")).ok()).flatten();
    let target = based.unwrap_or_else(|| target.clone());
    if let Some(host) = upstream.host(server) {
        outgoing.headers_mut().insert(HOST, host.clone());
    }
    *outgoing.uri_mut() =
        if upstream.needs_absolute_uri() { absolute_uri(outgoing, server, target) } else { Uri::from(target) };
}

/// The absolute URI that HTTP/2 sends; removes `Host`.
fn absolute_uri<B>(outgoing: &mut Request<B>, server: &Server, target: PathAndQuery) -> Uri {
    let host = outgoing.headers_mut().remove(HOST);
    let authority = host.as_ref().map(HeaderValue::as_bytes).filter(|host| !host.is_empty());
    let scheme = if server.is_tls() { "https" } else { "http" };
    let builder = Uri::builder().scheme(scheme).authority(authority.unwrap_or(server.host().as_bytes()));
    builder.path_and_query(target.clone()).build().unwrap_or_else(|_| Uri::from(target))
}
