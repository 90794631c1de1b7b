//! A request's life in the gateway, in one line.
//!
//! ```text
//! check the head -> find the route -> ask the rules -> take a turn -> clean the head -> send it on
//!                                         |                                                |
//!                                  refuse, degrade                                  relay the answer,
//!                                  or redirect                                 hold permits to its end
//! ```
//! The rules are asked about requests without a route too: who tries paths at random is limited as well.
//!
//! All up to the rules' answer [begins](begin) at once, and for whoever is plainly refused that is all of it. The rest may
//! take its time: it is [served](serve).

mod forward;
mod journal;
mod upgrade;

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use sluicegate_engine::gate::Ending;
use sluicegate_engine::rule::{self, Side};
use sluicegate_engine::sluice::{Admission, Waved};
use sluicegate_engine::{Outcome, Pass};
use sluicegate_http::attributes::HttpAttributes;
use sluicegate_http::headers::Fields;
use sluicegate_http::{Protocol, Renderer, normal_path};

use crate::answer::Answer;
use crate::body::{AnswerBody, Held, Upload};
use crate::client::Client;
use crate::failure::Failure;
use crate::head::{self, Survey};
use crate::route::Found;
use crate::shared::{Place, Shared};
pub(crate) use journal::Journal;
pub(crate) use upgrade::Tunnel;

/// A request that has begun.
pub(crate) enum Begun<R> {
    /// It is over: this is the answer to it.
    Refused(R),
    /// It is to be [served](serve).
    GoesOn(Opening),
}

/// What is known of a request when the rules have been asked.
pub(crate) struct Opening {
    journal: Option<Box<Journal>>,
    asked: Result<Asked, Failure>,
}

impl Opening {
    /// Whether the request is sent to a server next.
    pub(crate) fn is_sent_on(&self, client: &Client) -> bool {
        let places = &client.thread.shared.places;
        matches!(&self.asked, Ok(Asked { found: Found::Route(route), said: Said::Go(_), .. })
            if matches!(places[*route], Place::Upstream(_)))
    }
}

/// A request whose head makes sense.
struct Asked {
    survey: Survey,
    found: Found,
    said: Said,
}

/// What the rules say to a request.
enum Said {
    /// It may go on, and nothing more has to be known; its answer tells this.
    Go(Box<Fields>),
    /// It may not; this is the answer.
    Refused(Box<Response<Bytes>>),
    /// All the rest.
    Admission(Pin<Box<Admission>>),
}

/// Checks a request's head, finds its route, and asks the rules. What they refuse without further ado is for `briefly`
/// to answer, if it can.
pub(crate) fn begin<R>(
    client: &Arc<Client>,
    request: &mut Request<Upload>,
    briefly: impl FnOnce(&Renderer, &Waved<'_>) -> Option<R>,
) -> Begun<R> {
    let journal = Journal::begin(client, request);
    let survey = match head::check(request) {
        Ok(survey) => survey,
        Err(failure) => return Begun::GoesOn(Opening { journal, asked: Err(failure) }),
    };
    // Who keeps a journal has to know everything about the decision.
    let briefly = journal.is_none().then_some(briefly);
    match ask(client, request, briefly) {
        Ok((found, said)) => Begun::GoesOn(Opening { journal, asked: Ok(Asked { survey, found, said }) }),
        Err(refusal) => Begun::Refused(refusal),
    }
}

/// Serves a request that has begun. What is sent on is taken out of it.
pub(crate) async fn serve(client: Arc<Client>, request: &mut Request<Upload>, opening: Opening) -> Box<Answer> {
    let is_head = *request.method() == Method::HEAD;
    let Opening { mut journal, asked } = opening;
    let answered = match asked {
        Ok(asked) => answered(&client, request, asked, &mut journal).await,
        Err(failure) => Err(failure),
    };
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(failure) => {
            if let Some(journal) = &mut journal {
                journal.failed(&failure);
            }
            Answer::own(failure.render(), is_head)
        }
    };
    // What a server answers has it; what is answered here is short, and as good as sent.
    if let Some(mut journal) = journal {
        journal.head(answer.status, answer.head.map_mut());
        if let AnswerBody::Own(Some(body)) = &answer.body {
            journal.passed(body.len());
        }
        journal.ended();
    }
    answer
}

async fn answered(
    client: &Arc<Client>,
    request: &mut Request<Upload>,
    asked: Asked,
    journal: &mut Option<Box<Journal>>,
) -> Result<Box<Answer>, Failure> {
    let is_head = *request.method() == Method::HEAD;
    let shared = &*client.thread.shared;
    let Asked { survey, found, said } = asked;
    let mut held = Held::default();
    let fields = match said {
        Said::Go(fields) => fields,
        Said::Refused(answer) => return Ok(Answer::own(*answer, is_head)),
        Said::Admission(mut admission) => match admission.decided() {
            // An outcome is large: it is looked at where it is, and only moved if it must be kept.
            Some(outcome) if outcome.is_admitted() => {
                note(journal, outcome, false);
                let fields = Box::new(shared.renderer.fields(outcome));
                if outcome.is_held()
                    && let Some(outcome) = admission.take()
                {
                    held.keep(Box::new(outcome));
                }
                fields
            }
            Some(outcome) => {
                note(journal, outcome, false);
                return Ok(refused(shared, outcome, request));
            }
            None => {
                let outcome = admission.await;
                note(journal, &outcome, true);
                if !outcome.is_admitted() {
                    return Ok(refused(shared, &outcome, request));
                }
                let fields = Box::new(shared.renderer.fields(&outcome));
                if outcome.is_held() {
                    held.keep(Box::new(outcome));
                }
                fields
            }
        },
    };
    let place = match found {
        Found::Route(route) => &shared.places[route],
        Found::OtherMethod => return Err(other_method(shared, request)),
        Found::Nothing => return Err(Failure::NoRoute),
    };
    held.turn = turn(shared, journal).await?;
    let mut answer = match place {
        Place::Answer(answer) => {
            held.note(Ending::Well);
            Answer::own(answer.clone(), is_head)
        }
        Place::Demo(_) => {
            held.note(Ending::Well);
            Answer::own(crate::demo::answer(request), is_head)
        }
        Place::Upstream(way) => forward::forward(client, way, request, survey, held, journal).await?,
    };
    answer.fields = Some(fields);
    Ok(answer)
}

/// Waits until the request may be worked on.
async fn turn(shared: &Shared, journal: &mut Option<Box<Journal>>) -> Result<Option<Pass>, Failure> {
    let mut waiting = pin!(shared.workers.turn());
    let turn = poll_fn(|context| {
        let turn = waiting.as_mut().poll(context);
        match journal {
            Some(journal) if turn.is_pending() => journal.waits(),
            Some(journal) => journal.has_turn(),
            None => {}
        }
        turn
    });
    turn.await.map_err(|_| Failure::Busy)
}

fn note(journal: &mut Option<Box<Journal>>, outcome: &Outcome, waited: bool) {
    if let Some(journal) = journal {
        journal.decided(outcome, waited);
    }
}

/// Finds the route, and asks the rules; in few words if that will do. An error is a plain refusal, answered `briefly`.
fn ask<B, R>(
    client: &Client,
    request: &Request<B>,
    briefly: Option<impl FnOnce(&Renderer, &Waved<'_>) -> Option<R>>,
) -> Result<(Found, Said), R> {
    let shared = &*client.thread.shared;
    let address = client.origin.client(&shared.forwarding, request.headers());
    let waving = briefly.map(|briefly| (shared.sluice.waving(), briefly));
    if let Some((waving, _)) = &waving {
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
    if let Some((waving, briefly)) = waving
        && let Some(waved) = waving.wave(&described)
    {
        if waved.is_admitted() {
            return Ok((found, Said::Go(Box::new(shared.renderer.fields_waved(&waved)))));
        }
        let protocol = Protocol::of(request.headers());
        if protocol == Protocol::Http
            && let Some(refusal) = briefly(&shared.renderer, &waved)
        {
            return Err(refusal);
        }
        return Ok((found, Said::Refused(Box::new(shared.renderer.refuse_waved(&waved, protocol)))));
    }
    Ok((found, Said::Admission(Box::pin(shared.sluice.admit(&described)))))
}

fn refused<B>(shared: &Shared, outcome: &Outcome, request: &Request<B>) -> Box<Answer> {
    let answer = shared.renderer.refuse(outcome, Protocol::of(request.headers()));
    Answer::own(answer, *request.method() == Method::HEAD)
}

#[cold]
fn other_method<B>(shared: &Shared, request: &Request<B>) -> Failure {
    let host = rule::Request { host: head::authority(request), ..rule::Request::new("", "") }.host_name();
    Failure::OtherMethod { allowed: shared.router.methods(&host, &normal_path(request.uri().path())) }
}
