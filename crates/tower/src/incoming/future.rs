//! A request on its way: in line, in the service, or refused.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use sluicegate_engine::sluice::Admission;
use sluicegate_http::headers::Fields;
use tower_service::Service;

use super::body::LimitBody;
use super::gate::Gate;
use super::held::Held;

pin_project! {
    /// The answer to come. Dropping it leaves the line and gives back what is held.
    #[must_use = "futures do nothing unless polled"]
    pub struct LimitFuture<S: Service<Request<B>>, B> {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StateReplaced]
    enum State<S: Service<Request<B>>, B> {
        Waiting { waiting: Box<Waiting<S, B>> },
        Serving { #[pin] answer: S::Future, fields: Fields, held: Option<Box<Held>> },
        Refused { answer: Option<Box<Response<Bytes>>> },
        Done,
    }
}

/// A request in line, with the service that is ready for it.
struct Waiting<S, B> {
    admission: Admission,
    service: S,
    request: Request<B>,
    gate: Arc<Gate>,
}

impl<S: Service<Request<B>>, B> LimitFuture<S, B> {
    pub(super) const fn admitted(answer: S::Future, fields: Fields, held: Option<Box<Held>>) -> Self {
        Self { state: State::Serving { answer, fields, held } }
    }

    pub(super) fn refused(answer: Response<Bytes>) -> Self {
        Self { state: State::Refused { answer: Some(Box::new(answer)) } }
    }

    pub(super) fn waiting(admission: Admission, service: S, request: Request<B>, gate: Arc<Gate>) -> Self {
        let waiting = Box::new(Waiting { admission, service, request, gate });
        Self { state: State::Waiting { waiting } }
    }
}

impl<S, B, R> Future for LimitFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let outcome = ready!(Pin::new(&mut waiting.admission).poll(context));
                    let StateReplaced::Waiting { waiting } = state.as_mut().project_replace(State::Done) else {
                        return Poll::Pending;
                    };
                    let Waiting { mut service, request, gate, .. } = *waiting;
                    if outcome.is_admitted() {
                        let fields = gate.renderer().fields(&outcome);
                        let held = outcome.is_held().then(|| Held::of(outcome, request.headers()));
                        State::Serving { answer: service.call(request), fields, held }
                    } else {
                        State::Refused { answer: Some(Box::new(gate.refuse(&request, &outcome))) }
                    }
                }
                StateProjection::Serving { answer, fields, held } => {
                    let answer = ready!(answer.poll(context));
                    let (fields, held) = (mem::take(fields), held.take());
                    return Poll::Ready(answer.map(|answer| dressed(answer, fields, held)));
                }
                StateProjection::Refused { answer } => {
                    return match answer.take() {
                        Some(answer) => Poll::Ready(Ok((*answer).map(LimitBody::own))),
                        None => Poll::Pending,
                    };
                }
                StateProjection::Done => return Poll::Pending,
            };
            state.set(next);
        }
    }
}

/// The service's answer, told what is left; what is held stays with its body.
fn dressed<R>(answer: Response<R>, fields: Fields, held: Option<Box<Held>>) -> Response<LimitBody<R>> {
    // What the service says it cost is read before we add anything.
    let mut answer = LimitBody::answer(answer, held);
    fields.write(answer.headers_mut());
    answer
}
