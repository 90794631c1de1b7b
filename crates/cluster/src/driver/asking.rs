//! An ask under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::batch::Batch;
use super::shared::Shared;
use crate::error::Failure;

/// What the driver sends to who asked. The item comes back with its answer, so that whoever holds the two can
/// give back what was taken.
pub(super) type Heard<B> = Result<(<B as Batch>::Item, <B as Batch>::Answer), Failure>;

/// An ask under way: a future. Dropping it gives back what it took.
pub(crate) struct Asking<B: Batch>(State<B>);

enum State<B: Batch> {
    Failed(Failure),
    Asked { answer: oneshot::Receiver<Heard<B>>, driver: Weak<Shared<B>> },
    Done,
}

impl<B: Batch> Asking<B> {
    pub(super) const fn failed(failure: Failure) -> Self {
        Self(State::Failed(failure))
    }

    pub(super) const fn asked(answer: oneshot::Receiver<Heard<B>>, driver: Weak<Shared<B>>) -> Self {
        Self(State::Asked { answer, driver })
    }
}

// The fields are not pinned: neither is moved out of while it is polled.
impl<B: Batch> Unpin for Asking<B> {}

impl<B: Batch> Future for Asking<B> {
    type Output = Result<B::Answer, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let heard = match &mut self.0 {
            State::Asked { answer, .. } => match Pin::new(answer).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(heard) => heard.unwrap_or(Err(Failure::Closed)),
            },
            State::Failed(failure) => Err(failure.clone()),
            // Polled after it was ready: nothing is left to say.
            State::Done => Err(Failure::Closed),
        };
        self.0 = State::Done;
        Poll::Ready(heard.map(|(_, answer)| answer))
    }
}

impl<B: Batch> Drop for Asking<B> {
    fn drop(&mut self) {
        if let State::Asked { answer, driver } = &mut self.0 {
            answer.close();
            // The answer was on its way. One that is sent from now on comes back to the driver itself.
            let heard = match answer.try_recv() {
                Ok(Ok(heard)) => heard,
                Ok(Err(_)) | Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
            if let Some(driver) = driver.upgrade() {
                driver.give_back(vec![heard]);
            }
        }
    }
}
