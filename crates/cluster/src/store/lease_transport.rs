//! Transport of lease requests through the store client.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::exact::ExactBatch;
use crate::client::StoreClient;
use crate::lease::{LeaseMessage, LeaseReply, LeaseTable, LeaseTransport, decode, encode};

/// Sends a lease table's requests to the store and applies the replies.
pub(super) struct StoreLeaseTransport {
    client: StoreClient<ExactBatch>,
    deadline: Duration,
    /// The table, set once it exists; weak, because the table holds this transport.
    table: OnceLock<Weak<LeaseTable>>,
    in_flight: Arc<InFlightRequests>,
}

/// Number of requests in flight.
pub(super) struct InFlightRequests(watch::Sender<usize>);

impl InFlightRequests {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(0)))
    }

    /// Waits until there are none. Each has its deadline, so that is soon.
    pub(super) async fn drained(&self) {
        // The sender lives in `self`.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl StoreLeaseTransport {
    pub(super) fn new(
        client: StoreClient<ExactBatch>,
        deadline: Duration,
        in_flight: &Arc<InFlightRequests>,
    ) -> Arc<Self> {
        Arc::new(Self { client, deadline, table: OnceLock::new(), in_flight: Arc::clone(in_flight) })
    }

    /// Sets the table to which replies are applied.
    pub(super) fn set_table(&self, table: &Arc<LeaseTable>) {
        // Set once, during construction.
        let _ = self.table.set(Arc::downgrade(table));
    }
}

impl LeaseTransport for StoreLeaseTransport {
    fn send(&self, message: LeaseMessage) {
        let Some(table) = self.table.get().cloned() else { return };
        let call = self.client.call(encode([message.frame()], None), self.deadline);
        let (client, in_flight) = (self.client.clone(), Arc::clone(&self.in_flight));
        in_flight.0.send_modify(|count| *count += 1);
        let arrival = LeaseRequestGuard(in_flight);
        self.client.spawn(async move {
            let _arrival = arrival;
            let reply = call.await.ok().and_then(|value| decode(&value, 1).ok()).and_then(|mut replies| replies.pop());
            let Some(table) = table.upgrade() else { return };
            match reply {
                Some(reply) => {
                    if let LeaseReply::Done(grant) = &reply
                        && grant.replaced
                    {
                        client.counters().replaced.fetch_add(1, Ordering::Relaxed);
                    }
                    table.on_reply(message.hash, &message.request.account, &reply);
                }
                None => table.on_failure(message.hash, &message.request.account),
            }
        });
    }
}

/// Decrements the number in flight on drop.
struct LeaseRequestGuard(Arc<InFlightRequests>);

impl Drop for LeaseRequestGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
