//! Sending a request on, and relaying the answer.

use std::sync::Arc;

use http::header::{EXPECT, HOST};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use sluicegate_config::settings::HostHeader;
use sluicegate_http::normal_path;

use crate::body::{AnswerBody, Held, RequestBody};
use crate::client::Client;
use crate::failure::Failure;
use crate::head;
use crate::shared::Way;
use crate::upstream::Server;

/// Sends a request to an upstream.
pub(super) async fn forward(
    client: &Arc<Client>,
    way: &Way,
    request: Request<Incoming>,
    held: Held,
) -> Result<Response<AnswerBody>, Failure> {
    let shared = &client.thread.shared;
    let (mut parts, body) = request.into_parts();
    let body = RequestBody::new(body, shared.timeouts.request_body, &shared.clock);
    let fate = body.fate();
    let target = target(&parts.uri, way.strip.as_deref());
    let host = host_of(&mut parts);
    head::strip(&mut parts.headers);
    if !body.is_empty() {
        parts.headers.remove(EXPECT);
    }
    let sends_own = way.host == HostHeader::Client;
    client.origin.tell(parts.version, &mut parts.headers, if sends_own { None } else { Some(host.clone()) });
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = parts.method;
    *outgoing.headers_mut() = parts.headers;
    if sends_own {
        outgoing.headers_mut().insert(HOST, host);
    }
    let lane = &client.thread.lanes[way.upstream];
    let sent = lane.send(outgoing, |outgoing, server| address(outgoing, way, &target, server), client.alarm()).await;
    match sent {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            head::strip(&mut parts.headers);
            parts.version = Version::default();
            Ok(Response::from_parts(parts, AnswerBody::server(body, held, Arc::clone(client))))
        }
        Err((failure, alarm)) => {
            client.keep_alarm(alarm);
            Err(match fate {
                Some(fate) if fate.is_slow() => Failure::Slow,
                Some(fate) if fate.is_broken() => Failure::Bad("the request's body broke off"),
                _ => failure,
            })
        }
    }
}

/// The host that the client asked for, taken out of the head.
fn host_of(parts: &mut http::request::Parts) -> HeaderValue {
    let sent = parts.headers.remove(HOST);
    let named = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    named.or(sent).unwrap_or(HeaderValue::from_static(""))
}

/// Path and query as they are sent on.
fn target(uri: &Uri, strip: Option<&str>) -> PathAndQuery {
    let whole = || uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let Some(strip) = strip else { return whole() };
    let cut = |path: &str| {
        let rest = path.strip_prefix(strip).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        let slash = if rest.is_empty() { "/" } else { "" };
        let (mark, query) = uri.query().map_or(("", ""), |query| ("?", query));
        PathAndQuery::try_from(format!("{slash}{rest}{mark}{query}")).ok()
    };
    // The route was found by the normal path; what was sent may spell it in another way.
    cut(uri.path()).or_else(|| cut(&normal_path(uri.path()))).unwrap_or_else(whole)
}

/// Writes to whom a request goes.
fn address(outgoing: &mut Request<RequestBody>, way: &Way, target: &PathAndQuery, server: &Server) {
    let base = server.base_path();
    let based = (!base.is_empty()).then(|| PathAndQuery::try_from(format!("{base}{target}")).ok()).flatten();
    let target = based.unwrap_or_else(|| target.clone());
    match &way.host {
        HostHeader::Client => {}
        HostHeader::Server => drop(outgoing.headers_mut().insert(HOST, server.host().clone())),
        HostHeader::Fixed(_) => {
            if let Some(host) = &way.fixed_host {
                outgoing.headers_mut().insert(HOST, host.clone());
            }
        }
    }
    *outgoing.uri_mut() = Uri::from(target);
}
