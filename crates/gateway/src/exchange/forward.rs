//! Sending a request on, and relaying the answer.

use std::sync::Arc;

use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use sluicegate_engine::gate::Ending;
use sluicegate_http::normal_path;

use super::{Journal, upgrade};
use crate::body::{AnswerBody, Held, RequestBody, Upload};
use crate::client::Client;
use crate::failure::Failure;
use crate::head::{self, Survey};
use crate::lane::Unanswered;
use crate::shared::Way;
use crate::upstream::{Server, Upstream};

/// Sends a request to an upstream.
pub(super) async fn forward(
    client: &Arc<Client>,
    way: &Way,
    request: Request<Upload>,
    survey: Survey,
    mut held: Held,
    journal: &mut Option<Box<Journal>>,
) -> Result<Response<AnswerBody>, Failure> {
    let shared = &client.thread.shared;
    let lane = &client.thread.lanes[way.upstream];
    if survey.upgrade && request.version() == Version::HTTP_11 && head::is_upgrade(request.headers()) {
        return Box::pin(upgrade::forward(client, way, request, survey, held, journal)).await;
    }
    let (mut parts, body) = request.into_parts();
    let body = RequestBody::new(body, shared.timeouts.request_body, &shared.clock);
    let fate = body.fate();
    let target = target(&parts.uri, way.strip.as_deref());
    let host = cleaned(&mut parts, survey, client, lane.upstream());
    if !body.is_empty() {
        if survey.expects {
            parts.headers.remove(EXPECT);
        }
        if body.size_hint().exact().is_none() {
            parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    let mut outgoing = outgoing(parts, host, body);
    if let Some(journal) = journal {
        journal.sent(&way.name, fate.clone());
    }
    let address = |outgoing: &mut Request<RequestBody>, server: &Server| {
        address(outgoing, &target, lane.upstream(), server);
    };
    match lane.send(&mut outgoing, address, client.alarm()).await {
        // Nobody asked for another protocol.
        Ok((answer, ..)) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
            Err(Failure::BadAnswer { upstream: way.name.clone() })
        }
        Ok((answer, server, attempts)) => {
            let (mut parts, body) = answer.into_parts();
            if Survey::of(&parts.headers).of_hop {
                head::strip(&mut parts.headers);
            }
            parts.version = Version::default();
            held.answered(parts.status, &parts.headers, fate);
            if let Some(mut journal) = journal.take() {
                journal.answered_by(server, attempts);
                journal.head(parts.status, &mut parts.headers);
                held.journal = Some(journal);
            }
            Ok(Response::from_parts(parts, AnswerBody::server(body, held, Arc::clone(client))))
        }
        Err(Unanswered { failure, last, alarm }) => {
            client.keep_alarm(alarm);
            if let (Some(journal), Some((server, attempts))) = (journal, last) {
                journal.tried(server, attempts);
            }
            Err(match fate {
                Some(fate) if fate.is_slow() => Failure::Slow,
                Some(fate) if fate.is_broken() => Failure::Bad("the request's body broke off"),
                _ => {
                    held.note(Ending::Failed);
                    failure
                }
            })
        }
    }
}

/// Takes off the head what is not to be passed on, and says where the request comes from. Answers which host
/// the client asked for, if it is to be put in again.
pub(super) fn cleaned(parts: &mut Parts, survey: Survey, client: &Client, upstream: &Upstream) -> Option<HeaderValue> {
    // Most send a `Host`, which mostly is sent on: then it stays where it is.
    let stays = survey.hosts > 0 && parts.uri.authority().is_none() && !upstream.sends_own_host();
    let host = if stays { None } else { Some(taken(parts)) };
    if survey.of_hop {
        head::strip(&mut parts.headers);
    }
    if parts.version == Version::HTTP_2 {
        head::join_cookies(&mut parts.headers);
    }
    let (kept, told) = if upstream.sends_own_host() { (None, host) } else { (host, None) };
    client.origin.tell(parts.version, &mut parts.headers, told, survey.hearsay);
    kept
}

/// The host that the client asked for, taken out of the head.
fn taken(parts: &mut Parts) -> HeaderValue {
    let sent = parts.headers.remove(HOST);
    let named = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    named.or(sent).unwrap_or(HeaderValue::from_static(""))
}

/// The request as it goes on, but for its address.
pub(super) fn outgoing<B>(parts: Parts, host: Option<HeaderValue>, body: B) -> Request<B> {
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = parts.method;
    *outgoing.headers_mut() = parts.headers;
    if let Some(host) = host {
        outgoing.headers_mut().insert(HOST, host);
    }
    outgoing
}

/// Path and query as they are sent on.
pub(super) fn target(uri: &Uri, strip: Option<&str>) -> PathAndQuery {
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

/// Writes on a request where it goes.
pub(super) fn address<B>(outgoing: &mut Request<B>, target: &PathAndQuery, upstream: &Upstream, server: &Server) {
    let base = server.base_path();
    let based = (!base.is_empty()).then(|| PathAndQuery::try_from(format!("{base}{target}")).ok()).flatten();
    let target = based.unwrap_or_else(|| target.clone());
    if let Some(host) = upstream.host(server) {
        outgoing.headers_mut().insert(HOST, host.clone());
    }
    *outgoing.uri_mut() = if upstream.needs_whole_uri() { whole(outgoing, server, target) } else { Uri::from(target) };
}

/// The address with scheme and host, as HTTP/2 sends it. There is no `Host` then.
fn whole<B>(outgoing: &mut Request<B>, server: &Server, target: PathAndQuery) -> Uri {
    let host = outgoing.headers_mut().remove(HOST);
    let authority = host.as_ref().map(HeaderValue::as_bytes).filter(|host| !host.is_empty());
    let scheme = if server.is_tls() { "https" } else { "http" };
    let whole = Uri::builder().scheme(scheme).authority(authority.unwrap_or(server.host().as_bytes()));
    whole.path_and_query(target.clone()).build().unwrap_or_else(|_| Uri::from(target))
}
