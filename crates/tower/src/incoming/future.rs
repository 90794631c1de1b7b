//! A request on its way: in line, in the service, or refused.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use sluicegate_engine::gate::Ending;
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
        // Large, and so not inside the state: what is put together in pieces is copied piece by piece.
        #[pin]
        pub(super) answer: Option<S::Future>,
        pub(super) state: State<S, B>,
    }
}

/// Where a request is.
pub(super) enum State<S, B> {
    Waiting(Box<Waiting<S, B>>),
    /// In the service. Its answer is told so much, and keeps what is held.
    Serving(Fields, Option<Box<Held>>),
    Refused(Box<Response<Bytes>>),
    Done,
}

/// A request in line, with the service that is ready for it.
pub(super) struct Waiting<S, B> {
    admission: Box<Admission>,
    service: S,
    request: Request<B>,
    gate: Arc<Gate>,
}

impl<S: Service<Request<B>>, B> LimitFuture<S, B> {
    pub(super) const fn refused(answer: Box<Response<Bytes>>) -> Self {
        Self { answer: None, state: State::Refused(answer) }
    }

    pub(super) fn waiting(admission: Box<Admission>, service: S, request: Request<B>, gate: Arc<Gate>) -> Self {
        let waiting = Box::new(Waiting { admission, service, request, gate });
        Self { answer: None, state: State::Waiting(waiting) }
    }
}

impl<S, B, R> Future for LimitFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let State::Waiting(waiting) = this.state {
            let outcome = ready!(Pin::new(&mut *waiting.admission).poll(context));
            let State::Waiting(waiting) = mem::replace(this.state, State::Done) else {
                return Poll::Pending;
            };
            let Waiting { mut service, request, gate, .. } = *waiting;
            *this.state = if outcome.is_admitted() {
                let fields = gate.renderer().fields(&outcome);
                let held = outcome.is_held().then(|| Held::of(outcome, request.headers()));
                this.answer.set(Some(service.call(request)));
                State::Serving(fields, held)
            } else {
                State::Refused(Box::new(gate.refuse(&request, &outcome)))
            };
        }
        if let Some(answer) = this.answer.as_pin_mut() {
            let answer = ready!(answer.poll(context));
            return Poll::Ready(match (answer, mem::replace(this.state, State::Done)) {
                (Ok(answer), State::Serving(fields, held)) => Ok(dressed(answer, fields, held)),
                (Ok(answer), _) => Ok(dressed(answer, Fields::default(), None)),
                (Err(error), state) => {
                    if let State::Serving(_, Some(mut held)) = state {
                        held.note(Ending::Failed);
                    }
                    Err(error)
                }
            });
        }
        match mem::replace(this.state, State::Done) {
            State::Refused(answer) => Poll::Ready(Ok((*answer).map(LimitBody::own))),
            // Polled again after it was ready: there is nothing more to come.
            _ => Poll::Pending,
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
