//! A call awaiting its reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::batch::Batch;
use super::state::StoreClientState;
use crate::error::CallError;

/// Result sent to a caller. The item comes back with its reply, so that the holder of both can
/// undo the call.
pub(super) type ReplyResult<B> = Result<(<B as Batch>::Item, <B as Batch>::Reply), CallError>;

/// Future of a call's reply. Dropping it undoes the call.
pub(crate) struct PendingReply<B: Batch>(PendingState<B>);

enum PendingState<B: Batch> {
    Failed(CallError),
    Waiting { reply: oneshot::Receiver<ReplyResult<B>>, client: Weak<StoreClientState<B>> },
    Done,
}

impl<B: Batch> PendingReply<B> {
    pub(super) const fn failed(failure: CallError) -> Self {
        Self(PendingState::Failed(failure))
    }

    pub(super) const fn waiting(reply: oneshot::Receiver<ReplyResult<B>>, client: Weak<StoreClientState<B>>) -> Self {
        Self(PendingState::Waiting { reply, client })
    }
}

// The fields are not pinned: neither is moved out of while it is polled.
impl<B: Batch> Unpin for PendingReply<B> {}

impl<B: Batch> Future for PendingReply<B> {
    type Output = Result<B::Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let received = match &mut self.0 {
            PendingState::Waiting { reply, .. } => match Pin::new(reply).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(received) => received.unwrap_or(Err(CallError::Closed)),
            },
            PendingState::Failed(failure) => Err(failure.clone()),
            // Polled after completion.
            PendingState::Done => Err(CallError::Closed),
        };
        self.0 = PendingState::Done;
        Poll::Ready(received.map(|(_, reply)| reply))
    }
}

impl<B: Batch> Drop for PendingReply<B> {
    fn drop(&mut self) {
        if let PendingState::Waiting { reply, client } = &mut self.0 {
            reply.close();
            // The reply had already been sent. A reply sent from now on is returned to the client itself.
            let received = match reply.try_recv() {
                Ok(Ok(received)) => received,
                Ok(Err(_)) | Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
            if let Some(client) = client.upgrade() {
                client.undo_undelivered(vec![received]);
            }
        }
    }
}
