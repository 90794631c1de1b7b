//! A caller waiting for the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_engine::algorithm::Status;
use tokio::sync::oneshot::{self, Receiver, Sender};

use super::node::{LeaseOutcome, Waiter};
use super::table::LeaseTable;

/// Notifies a waiting caller.
#[derive(Debug)]
pub(crate) struct LeaseWaiter(Sender<(LeaseOutcome, Status)>);

impl LeaseWaiter {
    /// Notifies the caller; returns the outcome if it is gone.
    pub(super) fn notify(self, outcome: LeaseOutcome, status: Status) -> Option<LeaseOutcome> {
        self.0.send((outcome, status)).err().map(|(outcome, _)| outcome)
    }
}

impl Waiter for LeaseWaiter {
    fn is_cancelled(&self) -> bool {
        self.0.is_closed()
    }
}

/// Future of the store's reply to a caller. Dropping it returns tokens that came too late.
#[must_use = "the outcome is the decision itself"]
pub(crate) struct LeaseWait {
    receiver: Receiver<(LeaseOutcome, Status)>,
    table: Arc<LeaseTable>,
    hash: u64,
}

impl LeaseWait {
    pub(super) fn new(table: &Arc<LeaseTable>, hash: u64) -> (LeaseWaiter, Self) {
        let (sender, receiver) = oneshot::channel();
        (LeaseWaiter(sender), Self { receiver, table: Arc::clone(table), hash })
    }
}

impl Future for LeaseWait {
    type Output = (LeaseOutcome, Option<Status>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|receiver| match receiver {
            Ok((outcome, status)) => (outcome, Some(status)),
            // The sender is gone.
            Err(_) => (LeaseOutcome::Failed, None),
        })
    }
}

impl Drop for LeaseWait {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok((LeaseOutcome::Acquired(receipt), _)) = self.receiver.try_recv() {
            self.table.return_tokens(self.hash, receipt);
        }
    }
}

impl std::fmt::Debug for LeaseWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}
