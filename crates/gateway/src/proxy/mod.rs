//! The request pipeline.
//!
//! ```text
//! check head -> match route -> check rules -> wait for permit -> rewrite head -> forward
//!                                  |                                               |
//!                           refuse, degrade                              relay the response,
//!                             or redirect                           hold permits until it ends
//! ```
//! The rules also decide requests without a route, so that path scans are limited too.
//!
//! Everything up to the decision is synchronous ([`decide`]); for a plain refusal nothing else is needed. The
//! remaining steps are asynchronous ([`respond`]).

mod forward;

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use sluicegate_engine::overload::Completion;
use sluicegate_engine::rule::{self, Direction};
use sluicegate_engine::sluice::{Admission, FastDecision};
use sluicegate_engine::{Outcome, Permit};
use sluicegate_http_adapter::attributes::HttpAttributes;
use sluicegate_http_adapter::headers::RateLimitFields;
use sluicegate_http_adapter::{DecisionView, Protocol, Renderer, normalize_path};

use crate::access_record::AccessRecord;
use crate::client_context::ClientContext;
use crate::context::{GatewayContext, RouteTarget};
use crate::error::ProxyError;
use crate::head::{self, HeaderScan};
use crate::request_body::IncomingBody;
use crate::response::{ProxyResponse, ResponseBody, ResponseGuard};
use crate::route::RouteMatch;

/// Result of [`decide`].
pub(crate) enum RequestDecision<R> {
    /// The request was refused; this is the response.
    Refused(R),
    /// Continue with [`respond`].
    Continue(DecidedRequest),
}

/// A request after the rules were checked.
pub(crate) struct DecidedRequest {
    access_record: Option<Box<AccessRecord>>,
    checked: Result<CheckedRequest, ProxyError>,
}

impl DecidedRequest {
    /// True if the request is forwarded to a server next.
    pub(crate) fn goes_upstream(&self, client: &ClientContext) -> bool {
        let targets = &client.worker.gateway.route_targets;
        matches!(&self.checked, Ok(CheckedRequest { route: RouteMatch::Route(route), verdict: RuleVerdict::Admit(_), .. })
            if matches!(targets[*route], RouteTarget::Upstream(_)))
    }
}

/// A request with a valid head.
struct CheckedRequest {
    scan: HeaderScan,
    route: RouteMatch,
    verdict: RuleVerdict,
}

/// Decision of the rules on a request.
enum RuleVerdict {
    /// Admitted by the fast path; the response carries these RateLimit fields.
    Admit(Box<RateLimitFields>),
    /// Refused by the fast path, with this response.
    Refuse(Box<Response<Bytes>>),
    /// Any other case: a full admission, possibly queued.
    Admission(Pin<Box<Admission>>),
}

/// Checks the head of a request, matches its route and checks the rules. `refuse_fast` renders a refusal of the
/// fast path, if it can.
pub(crate) fn decide<R>(
    client: &Arc<ClientContext>,
    request: &mut Request<IncomingBody>,
    refuse_fast: impl FnOnce(&Renderer, &FastDecision<'_>) -> Option<R>,
) -> RequestDecision<R> {
    let mut access_record = AccessRecord::begin(client, request);
    let scan = match head::check(request) {
        Ok(scan) => scan,
        Err(error) => return RequestDecision::Continue(DecidedRequest { access_record, checked: Err(error) }),
    };
    match check_rules(client, request, &mut access_record, refuse_fast) {
        Ok((route, verdict)) => RequestDecision::Continue(DecidedRequest {
            access_record,
            checked: Ok(CheckedRequest { scan, route, verdict }),
        }),
        Err(refusal) => RequestDecision::Refused(refusal),
    }
}

/// Produces the response to a decided request. Forwarded headers and body are taken out of `request`.
pub(crate) async fn respond(
    client: Arc<ClientContext>,
    request: &mut Request<IncomingBody>,
    decided: DecidedRequest,
) -> Box<ProxyResponse> {
    let is_head = *request.method() == Method::HEAD;
    let DecidedRequest { mut access_record, checked } = decided;
    let result = match checked {
        Ok(checked) => dispatch(&client, request, checked, &mut access_record).await,
        Err(error) => Err(error),
    };
    let mut response = match result {
        Ok(response) => response,
        Err(error) => {
            if let Some(record) = &mut access_record {
                record.record_error(&error);
            }
            ProxyResponse::from_gateway(error.render(), is_head)
        }
    };
    // A proxied response has taken its record already. A local response is short and counts as sent.
    if let Some(mut record) = access_record {
        record.record_response(response.status, response.head.map_mut());
        if let ResponseBody::Local(Some(body)) = &response.body {
            record.add_response_bytes(body.len());
        }
        record.record_complete();
    }
    response
}

async fn dispatch(
    client: &Arc<ClientContext>,
    request: &mut Request<IncomingBody>,
    checked: CheckedRequest,
    access_record: &mut Option<Box<AccessRecord>>,
) -> Result<Box<ProxyResponse>, ProxyError> {
    let is_head = *request.method() == Method::HEAD;
    let gateway = &*client.worker.gateway;
    let CheckedRequest { scan, route, verdict } = checked;
    let mut guard = ResponseGuard::default();
    let fields = match verdict {
        RuleVerdict::Admit(fields) => fields,
        RuleVerdict::Refuse(response) => return Ok(ProxyResponse::from_gateway(*response, is_head)),
        RuleVerdict::Admission(mut admission) => match admission.decided() {
            // An outcome is large: it is inspected in place and moved only if it must be held.
            Some(outcome) if outcome.is_admitted() => {
                record_decision(access_record, outcome, false);
                let fields = Box::new(gateway.renderer.fields(outcome));
                if outcome.holds_resources()
                    && let Some(outcome) = admission.take()
                {
                    guard.hold(outcome);
                }
                fields
            }
            Some(outcome) => {
                record_decision(access_record, outcome, false);
                return Ok(refusal(gateway, outcome, request));
            }
            None => {
                let outcome = admission.await;
                record_decision(access_record, &outcome, true);
                if !outcome.is_admitted() {
                    return Ok(refusal(gateway, &outcome, request));
                }
                let fields = Box::new(gateway.renderer.fields(&outcome));
                if outcome.holds_resources() {
                    guard.hold(outcome);
                }
                fields
            }
        },
    };
    let target = match route {
        RouteMatch::Route(route) => &gateway.route_targets[route],
        RouteMatch::MethodNotAllowed => return Err(method_not_allowed(gateway, request)),
        RouteMatch::NotFound => return Err(ProxyError::NoRoute),
    };
    guard.in_flight_permit = wait_for_permit(gateway, access_record).await?;
    let mut response = match target {
        RouteTarget::Static(response) => {
            guard.record(Completion::Ok);
            ProxyResponse::from_gateway(response.clone(), is_head)
        }
        RouteTarget::Demo(_) => {
            guard.record(Completion::Ok);
            ProxyResponse::from_gateway(crate::demo::respond(request), is_head)
        }
        RouteTarget::Upstream(target) => forward::forward(client, target, request, scan, guard, access_record).await?,
    };
    response.rate_limit_fields = Some(fields);
    Ok(response)
}

/// Waits for a permit of the in-flight limit.
async fn wait_for_permit(
    gateway: &GatewayContext,
    access_record: &mut Option<Box<AccessRecord>>,
) -> Result<Option<Permit>, ProxyError> {
    let mut waiting = pin!(gateway.in_flight_limit.acquire());
    let admitted = poll_fn(|context| {
        let permit = waiting.as_mut().poll(context);
        match access_record {
            Some(record) if permit.is_pending() => record.enter_queue(),
            Some(record) => record.leave_queue(),
            None => {}
        }
        permit
    });
    admitted.await.map_err(|_| ProxyError::AtCapacity)
}

fn record_decision(access_record: &mut Option<Box<AccessRecord>>, decision: &impl DecisionView, was_queued: bool) {
    if let Some(record) = access_record {
        record.record_decision(decision, was_queued);
    }
}

/// Matches the route and checks the rules, on the fast path if possible. An error is a refusal rendered by
/// `refuse_fast`.
fn check_rules<B, R>(
    client: &ClientContext,
    request: &Request<B>,
    access_record: &mut Option<Box<AccessRecord>>,
    refuse_fast: impl FnOnce(&Renderer, &FastDecision<'_>) -> Option<R>,
) -> Result<(RouteMatch, RuleVerdict), R> {
    let gateway = &*client.worker.gateway;
    let address = client.origin.client_ip(&gateway.forwarding, request.headers());
    let fast_path = gateway.sluice.fast_path();
    // Prefetches the client's state while the rest of the request is processed.
    fast_path.prefetch_client(address);
    let path = normalize_path(request.uri().path());
    let mut rule_request = rule::Request {
        direction: Direction::Inbound,
        service: "",
        method: request.method().as_str(),
        host: head::authority(request),
        path: &path,
        client_ip: Some(address),
        cost: 1,
        attributes: &HttpAttributes::new(request, &gateway.sources),
    };
    let host = if gateway.router.matches_hosts() { rule_request.host_name() } else { Cow::Borrowed("") };
    let matched = gateway.router.find(&host, request.method(), &path);
    if let RouteMatch::Route(route) = matched {
        rule_request.service = gateway.route_targets[route].service();
    }
    if let Some(decision) = fast_path.try_decide(&rule_request) {
        record_decision(access_record, &decision, false);
        if decision.is_admitted() {
            return Ok((matched, RuleVerdict::Admit(Box::new(gateway.renderer.fields(&decision)))));
        }
        let protocol = Protocol::of(request.headers());
        // The access record needs the response.
        if protocol == Protocol::Http
            && access_record.is_none()
            && let Some(refusal) = refuse_fast(&gateway.renderer, &decision)
        {
            return Err(refusal);
        }
        return Ok((matched, RuleVerdict::Refuse(Box::new(gateway.renderer.refuse(&decision, protocol)))));
    }
    drop(fast_path);
    Ok((matched, RuleVerdict::Admission(Box::pin(gateway.sluice.admit(&rule_request)))))
}

fn refusal<B>(gateway: &GatewayContext, outcome: &Outcome, request: &Request<B>) -> Box<ProxyResponse> {
    let response = gateway.renderer.refuse(outcome, Protocol::of(request.headers()));
    ProxyResponse::from_gateway(response, *request.method() == Method::HEAD)
}

#[cold]
fn method_not_allowed<B>(gateway: &GatewayContext, request: &Request<B>) -> ProxyError {
    let host = rule::Request { host: head::authority(request), ..rule::Request::new("", "") }.host_name();
    ProxyError::MethodNotAllowed { allowed: gateway.router.methods(&host, &normalize_path(request.uri().path())) }
}
