//! Sending a request on, and relaying the answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, StatusCode, Uri, Version};
use http_body::Body;
use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::gate::Ending;
use sluicegate_http::normal_path;
use sluicegate_http1::Wanted;

use super::{Journal, upgrade};
use crate::answer::Answer;
use crate::body::{AnswerBody, Held, RequestBody, Upload};
use crate::client::Client;
use crate::failure::Failure;
use crate::head::{self, Survey};
use crate::lane::{Answered, Outgoing, Unanswered};
use crate::shared::Way;
use crate::upstream::{Server, Upstream};

/// Sends a request to an upstream.
pub(super) async fn forward(
    client: &Arc<Client>,
    way: &Way,
    request: &mut Request<Upload>,
    survey: Survey,
    mut held: Held,
    journal: &mut Option<Box<Journal>>,
) -> Result<Box<Answer>, Failure> {
    let lane = &client.thread.lanes[way.upstream];
    let is_http1 = lane.upstream().settings().protocol == UpstreamProtocol::Http1;
    // Over HTTP/2 no other protocol is switched to like this: the server is asked as if nobody had.
    if survey.upgrade && is_http1 && request.version() == Version::HTTP_11 && head::is_upgrade(request.headers()) {
        return Box::pin(upgrade::forward(client, way, request, survey, held, journal)).await;
    }
    let body = taken_body(client, request);
    let fate = body.fate();
    held.sends(fate.as_ref());
    let target = target(request.uri(), way.strip.as_deref());
    let takes_lines = request.version() < Version::HTTP_2 && journal.is_none() && !held.reads_heads();
    let mut outgoing = outgoing(client, request, survey, lane.upstream(), body);
    if takes_lines {
        outgoing.wanted = Wanted::Lines;
    }
    if let Some(journal) = journal {
        journal.sent(&way.name, fate.clone(), outgoing.request.headers_mut());
    }
    let address = |outgoing: &mut Request<RequestBody>, server: &Arc<Server>| {
        address(outgoing, &target, lane.upstream(), server);
        if let Some(journal) = journal {
            journal.tries(server);
        }
    };
    match lane.send(&mut outgoing, address, client.alarm()).await {
        // Nobody asked for another protocol.
        Ok(Answered { status: StatusCode::SWITCHING_PROTOCOLS, .. }) => {
            Err(Failure::BadAnswer { upstream: way.name.clone() })
        }
        Ok(Answered { status, mut head, body }) => {
            // Lines are without them already.
            if head.lines().is_none() && Survey::of(head.map()).of_hop {
                head::strip_answer(head.map_mut());
            }
            held.answered(status, head.map());
            if let Some(mut journal) = journal.take() {
                journal.answered();
                journal.head(status, head.map_mut());
                held.journal = Some(journal);
            }
            Ok(Answer::new(status, head, AnswerBody::server(body, held, Arc::clone(client))))
        }
        Err(Unanswered { failure, alarm }) => {
            client.keep_alarm(alarm);
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

/// The body of a request, taken out of it.
pub(super) fn taken_body(client: &Client, request: &mut Request<Upload>) -> RequestBody {
    let shared = &client.thread.shared;
    let body = std::mem::replace(request.body_mut(), Upload::Empty);
    RequestBody::new(body, shared.timeouts.request_body, &shared.clock)
}

/// The request as it goes on, but for its address: without what is not to be passed on, and with where it comes from. Its
/// headers are taken out of what came.
pub(super) fn outgoing(
    client: &Client,
    request: &mut Request<Upload>,
    survey: Survey,
    upstream: &Upstream,
    body: RequestBody,
) -> Outgoing {
    // Most send a `Host`, which mostly is sent on: then it stays where it is.
    let stays = survey.hosts > 0 && request.uri().authority().is_none() && !upstream.sends_own_host();
    let host = if stays { None } else { Some(taken_host(request)) };
    let version = request.version();
    let headers = request.headers_mut();
    if survey.of_hop {
        head::strip(headers);
    }
    if version == Version::HTTP_2 {
        head::join_cookies(headers);
    }
    client.origin.silence(&client.thread.shared.forwarding, headers);
    let (kept, told) = if upstream.sends_own_host() { (None, host) } else { (host, None) };
    let lines = if upstream.settings().protocol == UpstreamProtocol::Http1 {
        client.origin.tell_in_lines(version, headers, told, survey)
    } else {
        client.origin.tell(version, headers, told, survey);
        Bytes::new()
    };
    if let Some(host) = kept {
        headers.insert(HOST, host);
    }
    if !body.is_empty() {
        if survey.expects {
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
    Outgoing { request: outgoing, lines, wanted: Wanted::Map }
}

/// The host that the client asked for, taken out of the head.
fn taken_host(request: &mut Request<Upload>) -> HeaderValue {
    let sent = request.headers_mut().remove(HOST);
    let named = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    named.or(sent).unwrap_or(HeaderValue::from_static(""))
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
