//! A request's life in the gateway, in one line.
//!
//! ```text
//! check the head -> find the route -> ask the rules -> take a turn -> clean the head -> send it on
//!                                         |                                                |
//!                                  refuse, degrade                                  relay the answer,
//!                                  or redirect                                 hold permits to its end
//! ```
//! The rules are asked about requests without a route too: who tries paths at random is limited as well.

mod forward;
mod journal;
mod upgrade;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response};
use sluicegate_engine::Outcome;
use sluicegate_engine::rule::{self, Side};
use sluicegate_engine::sluice::Admission;
use sluicegate_http::attributes::HttpAttributes;
use sluicegate_http::headers::Fields;
use sluicegate_http::{Protocol, normal_path};

use crate::body::{AnswerBody, Held, Upload};
use crate::client::Client;
use crate::failure::Failure;
use crate::head;
use crate::route::Found;
use crate::shared::{Place, Shared};
pub(crate) use journal::Journal;
pub(crate) use upgrade::Tunnel;

/// Serves one request.
pub(crate) async fn serve(client: Arc<Client>, mut request: Request<Upload>) -> Response<AnswerBody> {
    let is_head = *request.method() == Method::HEAD;
    let mut journal = Journal::begin(&client, &mut request);
    let mut answer = match answered(&client, request, &mut journal).await {
        Ok(answer) => answer,
        Err(failure) => {
            if let Some(journal) = &mut journal {
                journal.failed(&failure);
            }
            own(failure.render(), is_head)
        }
    };
    // What a server answers has it; what is answered here is short, and as good as sent.
    if let Some(mut journal) = journal {
        journal.head(answer.status(), answer.headers_mut());
        if let AnswerBody::Own(Some(body)) = answer.body() {
            journal.passed(body.len());
        }
        journal.ended();
    }
    answer
}

async fn answered(
    client: &Arc<Client>,
    request: Request<Upload>,
    journal: &mut Option<Box<Journal>>,
) -> Result<Response<AnswerBody>, Failure> {
    let shared = &*client.thread.shared;
    let survey = head::check(&request)?;
    let mut held = Held::default();
    let (found, asked) = ask(client, &request, journal.is_none());
    let fields = match asked {
        Asked::Waved(fields) => fields,
        Asked::Admission(mut admission) => match admission.decided() {
            // An outcome is large: it is looked at where it is, and only moved if it must be kept.
            Some(outcome) if outcome.is_admitted() => {
                note(journal, outcome, false);
                let fields = shared.renderer.fields(outcome);
                if outcome.is_held()
                    && let Some(outcome) = admission.take()
                {
                    held.keep(Box::new(outcome));
                }
                fields
            }
            Some(outcome) => {
                note(journal, outcome, false);
                return Ok(refused(shared, outcome, &request));
            }
            None => {
                let outcome = admission.await;
                note(journal, &outcome, true);
                if !outcome.is_admitted() {
                    return Ok(refused(shared, &outcome, &request));
                }
                let fields = shared.renderer.fields(&outcome);
                if outcome.is_held() {
                    held.keep(Box::new(outcome));
                }
                fields
            }
        },
    };
    let place = match found {
        Found::Route(route) => &shared.places[route],
        Found::OtherMethod => return Err(other_method(shared, &request)),
        Found::Nothing => return Err(Failure::NoRoute),
    };
    held.turn = shared.workers.turn().await.map_err(|_| Failure::Busy)?;
    let answer = match place {
        Place::Answer(answer) => own(answer.clone(), *request.method() == Method::HEAD),
        Place::Demo(_) => own(crate::demo::answer(&request), *request.method() == Method::HEAD),
        Place::Upstream(way) => forward::forward(client, way, request, survey, held, journal).await?,
    };
    Ok(dressed(answer, fields))
}

fn note(journal: &mut Option<Box<Journal>>, outcome: &Outcome, waited: bool) {
    if let Some(journal) = journal {
        journal.decided(outcome, waited);
    }
}

/// What the rules say to a request.
enum Asked {
    /// It may go on, and nothing more has to be known; its answer tells this.
    Waved(Fields),
    /// All the rest.
    Admission(Pin<Box<Admission>>),
}

/// Finds the route, and asks the rules; in few words where those `will_do`.
fn ask<B>(client: &Client, request: &Request<B>, will_do: bool) -> (Found, Asked) {
    let shared = &*client.thread.shared;
    let address = client.origin.client(&shared.forwarding, request.headers());
    let waving = will_do.then(|| shared.sluice.waving());
    if let Some(waving) = &waving {
        // What is known of the client is fetched while the rest of the request is read.
        waving.expect_client(address);
    }
    let path = normal_path(request.uri().path());
    let mut described = rule::Request {
        side: Side::Inbound,
        service: "",
        method: request.method().as_str(),
        host: head::authority(request),
        path: &path,
        client_ip: Some(address),
        cost: 1,
        attributes: &HttpAttributes::new(request, &shared.sources),
    };
    let host = if shared.router.tells_hosts_apart() { described.host_name() } else { Cow::Borrowed("") };
    let found = shared.router.find(&host, request.method(), &path);
    if let Found::Route(route) = found {
        described.service = shared.places[route].service();
    }
    if let Some(waving) = waving
        && let Some(waved) = waving.through(&described)
    {
        return (found, Asked::Waved(shared.renderer.fields_waved(&waved)));
    }
    (found, Asked::Admission(Box::pin(shared.sluice.admit(&described))))
}

fn refused<B>(shared: &Shared, outcome: &Outcome, request: &Request<B>) -> Response<AnswerBody> {
    let answer = shared.renderer.refuse(outcome, Protocol::of(request.headers()));
    own(answer, *request.method() == Method::HEAD)
}

#[cold]
fn other_method<B>(shared: &Shared, request: &Request<B>) -> Failure {
    let host = rule::Request { host: head::authority(request), ..rule::Request::new("", "") }.host_name();
    Failure::OtherMethod { allowed: shared.router.methods(&host, &normal_path(request.uri().path())) }
}

fn dressed(mut answer: Response<AnswerBody>, fields: Fields) -> Response<AnswerBody> {
    fields.write(answer.headers_mut());
    answer
}

/// What the gateway itself answers.
pub(crate) fn own(answer: Response<Bytes>, is_head: bool) -> Response<AnswerBody> {
    let (mut parts, mut body) = answer.into_parts();
    if is_head && !body.is_empty() {
        // Over HTTP/2 hyper would send it, and the client would take that for a broken stream.
        parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
        body = Bytes::new();
    }
    Response::from_parts(parts, AnswerBody::own(body))
}
