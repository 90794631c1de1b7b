//! Requests for leases on their way.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::exact::ExactBatch;
use crate::driver::Driver;
use crate::lease::{LeaseReply, LeaseTable, Messenger, Parcel, decode, encode};

/// Carries a table's requests to the store and its answers back.
pub(super) struct Mail {
    driver: Driver<ExactBatch>,
    deadline: Duration,
    /// The table, once it is there. It holds this.
    table: OnceLock<Weak<LeaseTable>>,
    under_way: Arc<UnderWay>,
}

/// How many requests are under way.
pub(super) struct UnderWay(watch::Sender<usize>);

impl UnderWay {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(0)))
    }

    /// Waits until there are none. Each has its deadline, so that is soon.
    pub(super) async fn none(&self) {
        // The sender lives in what this holds.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl Mail {
    pub(super) fn new(driver: Driver<ExactBatch>, deadline: Duration, under_way: &Arc<UnderWay>) -> Arc<Self> {
        Arc::new(Self { driver, deadline, table: OnceLock::new(), under_way: Arc::clone(under_way) })
    }

    /// Whose mail it is.
    pub(super) fn belongs_to(&self, table: &Arc<LeaseTable>) {
        // It is told once, when both are made.
        let _ = self.table.set(Arc::downgrade(table));
    }
}

impl Messenger for Mail {
    fn send(&self, parcel: Parcel) {
        let Some(table) = self.table.get().cloned() else { return };
        let call = self.driver.call(encode([parcel.letter()], None), self.deadline);
        let (driver, under_way) = (self.driver.clone(), Arc::clone(&self.under_way));
        under_way.0.send_modify(|count| *count += 1);
        let arrival = Arrival(under_way);
        self.driver.spawn(async move {
            let _arrival = arrival;
            let reply = call.await.ok().and_then(|value| decode(&value, 1).ok()).and_then(|mut replies| replies.pop());
            let Some(table) = table.upgrade() else { return };
            match reply {
                Some(reply) => {
                    if let LeaseReply::Done(answer) = &reply
                        && answer.healed
                    {
                        driver.counters().healed.fetch_add(1, Ordering::Relaxed);
                    }
                    table.answered(parcel.hash, &parcel.request.account, &reply);
                }
                None => table.failed(parcel.hash, &parcel.request.account),
            }
        });
    }
}

/// One less under way when dropped, however it ended.
struct Arrival(Arc<UnderWay>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
