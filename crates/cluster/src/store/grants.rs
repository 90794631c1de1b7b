//! Taking what a request wants, step by step where one call does not reach all of it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::fleet::{Answer as FleetAnswer, FleetSaid, FleetTaken, Granted, StoreLost, Want};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::exact::{Exact, ending};
use super::limits::said;
use crate::ask::{Answer, Ask, Said, Unit};
use crate::exact::{Ending, decode_end, encode_end};
use crate::keys::StoreKey;
use crate::lease::{LeaseTable, Local, Outcome, Slip};

/// The most that is given back at once: beyond it the numbers of a script are not exact, and no limit is as high.
const MOST_REFUNDED: u64 = 1 << 50;

/// How long giving back may take. What is lost by then comes back with time.
const GIVING_BACK: Duration = Duration::from_secs(1);

/// What is asked, in order: leases, which mostly stay in the process, and then the store. Units that can be
/// decided in one call go together.
pub(super) struct Steps {
    exact: Exact,
    leases: SmallVec<[Lease; 1]>,
    calls: SmallVec<[Step; 1]>,
    /// How many wants there are.
    wants: usize,
}

struct Lease {
    want: usize,
    hash: u64,
    cost: u64,
    key: StoreKey,
    table: Arc<LeaseTable>,
}

struct Step {
    units: SmallVec<[Unit; 1]>,
    /// Which wants they are for.
    wants: SmallVec<[usize; 1]>,
}

impl Steps {
    pub(super) fn new(exact: &Exact) -> Self {
        Self { exact: exact.clone(), leases: SmallVec::new(), calls: SmallVec::new(), wants: 0 }
    }

    /// Asks for a want by lease.
    pub(super) fn lease(
        &mut self,
        want: usize,
        table: &Arc<LeaseTable>,
        wanted: &Want,
        key: impl FnOnce() -> StoreKey,
    ) {
        let (hash, cost) = (wanted.hash, wanted.cost);
        self.leases.push(Lease { want, hash, cost, key: key(), table: Arc::clone(table) });
        self.wants += 1;
    }

    /// Asks for a want in the store.
    pub(super) fn exact(&mut self, want: usize, unit: Unit) {
        self.wants += 1;
        let exact = &self.exact;
        let reaching = |step: &&mut Step| step.units.first().is_some_and(|first| exact.go_together(first, &unit));
        match self.calls.iter_mut().find(reaching) {
            Some(step) => {
                step.units.push(unit);
                step.wants.push(want);
            }
            None => self.calls.push(Step { units: SmallVec::from_iter([unit]), wants: SmallVec::from_iter([want]) }),
        }
    }

    /// Whether it is one call, which has its deadline.
    pub(super) fn is_one_call(&self) -> bool {
        self.leases.is_empty() && self.calls.len() <= 1
    }

    /// Takes everything, or nothing, within this time: several steps may have taken long enough together.
    pub(super) async fn take_within(self, deadline: Duration) -> FleetAnswer {
        let (timer, passed) = oneshot::channel::<Infallible>();
        self.exact.driver().spawn(async move {
            tokio::time::sleep(deadline).await;
            drop(timer);
        });
        match select(pin!(self.take()), passed).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(StoreLost),
        }
    }

    /// Takes everything, or nothing: what was taken goes back if a later step refuses or fails, or if nobody
    /// waits any more.
    pub(super) async fn take(self) -> FleetAnswer {
        let mut taken = Taken::new(&self.exact);
        let mut said: SmallVec<[FleetSaid; 1]> = SmallVec::from_elem(FleetSaid::NOT_ASKED, self.wants);
        for lease in self.leases {
            let want = lease.want;
            said[want] = lease.take(&mut taken).await?;
            if !admits(&said[want]) {
                return Ok(Granted { said, taken: None });
            }
        }
        for Step { units, wants } in self.calls {
            let answer = self.exact.ask(&units).await?;
            for (want, heard) in wants.iter().zip(&answer) {
                said[*want] = FleetSaid::from(*heard);
            }
            if !answer.iter().all(Said::admits) {
                return Ok(Granted { said, taken: None });
            }
            taken.add(wants, units, &answer);
        }
        taken.is_done = true;
        Ok(Granted { said, taken: Some(Box::new(taken)) })
    }
}

fn admits(said: &FleetSaid) -> bool {
    matches!(said.check, Check::Now | Check::After(_))
}

impl Lease {
    async fn take(self, taken: &mut Taken) -> Result<FleetSaid, StoreLost> {
        let Self { want, hash, cost, key, table } = self;
        let capacity = table.terms().capacity();
        let unknown = Status { limit: capacity, remaining: 0, reset: 0 };
        let (outcome, status) = match table.take(hash, cost, || key.clone()) {
            Local::Taken(slip, status) => (Outcome::Taken(slip), Some(status)),
            Local::NotBefore(wait, status) => (Outcome::NotBefore(wait), Some(status)),
            Local::Never => return Ok(said(Check::Never, Status { remaining: capacity, ..unknown })),
            Local::Crowded => return Err(StoreLost),
            // It may wait for two answers, one after the other: its own deadline ends that.
            Local::Waiting(waiting) => taken.exact.driver().in_time(waiting).await.unwrap_or((Outcome::Failed, None)),
        };
        let status = status.unwrap_or(unknown);
        match outcome {
            Outcome::Taken(slip) => {
                taken.leased.push(Leased { want, hash, cost, key, slip, table });
                Ok(said(Check::Now, status))
            }
            Outcome::NotBefore(wait) => Ok(said(Check::NotBefore(wait), status)),
            Outcome::Failed => Err(StoreLost),
        }
    }
}

impl Exact {
    async fn ask(&self, units: &SmallVec<[Unit; 1]>) -> Result<Answer, StoreLost> {
        let (answer, healed) = self.driver().ask(Ask { units: units.clone() }).await.map_err(|_| StoreLost)?;
        if healed > 0 {
            self.driver().counters().healed.fetch_add(healed, Ordering::Relaxed);
        }
        Ok(answer)
    }

    /// Sends what has ended, and does not wait for it.
    fn end(&self, mut endings: Vec<Ending>) {
        while let Some(first) = endings.first() {
            let slot = first.key.slot();
            let (together, rest) =
                endings.into_iter().partition(|ending: &Ending| !self.is_in_slots() || ending.key.slot() == slot);
            endings = rest;
            let call = self.driver().call(encode_end(&together, None), GIVING_BACK);
            let driver = self.driver().clone();
            self.driver().spawn(async move {
                if let Ok(Ok((_, healed))) = call.await.map(|answer| decode_end(answer, &together)) {
                    driver.counters().healed.fetch_add(healed, Ordering::Relaxed);
                }
            });
        }
    }
}

/// What a request has taken. Dropped before the request was admitted, all of it goes back.
struct Taken {
    exact: Exact,
    /// The unit of each want, and what was said about it.
    units: Vec<(usize, Unit, Said)>,
    leased: Vec<Leased>,
    /// Whether the request was admitted.
    is_done: bool,
}

/// What was taken from a lease.
struct Leased {
    want: usize,
    hash: u64,
    cost: u64,
    key: StoreKey,
    slip: Slip,
    table: Arc<LeaseTable>,
}

impl Taken {
    fn new(exact: &Exact) -> Self {
        Self { exact: exact.clone(), units: Vec::new(), leased: Vec::new(), is_done: false }
    }

    fn add(&mut self, wants: SmallVec<[usize; 1]>, units: SmallVec<[Unit; 1]>, said: &[Said]) {
        for ((want, unit), said) in wants.into_iter().zip(units).zip(said) {
            self.exact.permits().keep(&unit);
            self.units.push((want, unit, *said));
        }
    }

    /// Ends everything; `actual` tells what each want really cost.
    fn finish(&mut self, actual: impl Fn(usize, u64) -> u64) {
        for Leased { want, hash, cost, key, slip, table } in self.leased.drain(..) {
            match actual(want, cost).checked_sub(cost) {
                Some(0) => {}
                Some(beyond) => table.charge(hash, beyond, || key),
                None => table.give_back(hash, slip.part(cost - actual(want, cost))),
            }
        }
        let mut endings = Vec::new();
        for (want, unit, said) in self.units.drain(..) {
            self.exact.permits().let_go(&unit);
            let actual = actual(want, unit.cost);
            if unit.permit.is_some() || actual != unit.cost {
                endings.push(ending(&unit, &said, actual));
            }
        }
        self.exact.end(endings);
    }
}

impl FleetTaken for Taken {
    fn is_held(&self) -> bool {
        self.units.iter().any(|(_, unit, _)| unit.permit.is_some())
    }

    fn end(mut self: Box<Self>, actual: &[u64]) {
        self.finish(|want, cost| actual.get(want).copied().unwrap_or(cost));
    }

    /// What was taken from leases may have been another process's, and is not given back.
    fn refund(mut self: Box<Self>, amounts: &[u64]) {
        let before = |(want, unit, said): &(usize, Unit, Said)| {
            let taken = amounts.get(*want).copied().unwrap_or(0).min(MOST_REFUNDED);
            Ending { taken, at: 0, ..ending(unit, said, 0) }
        };
        self.exact.end(self.units.iter().map(before).collect());
        self.finish(|_, cost| cost);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_done {
            // Rates were spent; permits go back however it ended.
            self.finish(|_, cost| cost);
        } else {
            self.finish(|_, _| 0);
        }
    }
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("units", &self.units).finish_non_exhaustive()
    }
}
