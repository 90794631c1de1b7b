//! What both kinds of limiter are inside.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Builder;
use super::keyed::{Keyed, KeyedCore};
use super::unkeyed::Unkeyed;
use crate::algorithm::{Entry, Status};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, LimitError};
use crate::plan::{Holds, Plan, Taking};
use crate::table::{KeyHash, Place};
use crate::time::Timestamp;
use crate::wait::WaitRoom;

/// Limits with their state, with keys or without, and those who wait for them.
pub(crate) struct Inner {
    /// Orders limiters, so that those who need several take them in one order.
    id: u64,
    pub(super) store: Store,
    pub(crate) clock: ClockHandle,
    pub(crate) room: WaitRoom,
    /// Whether what passes have taken counts as out until they end.
    reservable: AtomicBool,
    /// Permits that callers hold, over all keys.
    permits: AtomicU64,
}

#[expect(clippy::large_enum_variant, reason = "one per limiter, and a box would be a detour on the fastest path")]
pub(super) enum Store {
    Unkeyed(Unkeyed),
    Keyed(Keyed),
}

/// The key of a limiter without keys.
pub(crate) const NO_KEY: KeyHash = KeyHash(0);

/// How one try to take from a limiter went.
pub(crate) struct Tried {
    pub(crate) decision: Decision,
    /// What was taken, if it was admitted.
    pub(crate) taken: Option<Taking>,
}

impl Inner {
    pub(super) fn new(store: Store, clock: ClockHandle, room: WaitRoom, reservable: bool) -> Arc<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, store, clock, room, reservable: AtomicBool::new(reservable), permits: AtomicU64::new(0) })
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        match &self.store {
            Store::Unkeyed(state) => state.plan(),
            Store::Keyed(states) => Arc::clone(&states.core().plan),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> KeyHash {
        match &self.store {
            Store::Unkeyed(_) => NO_KEY,
            Store::Keyed(states) => crate::table::hash_with(states.seed(), key),
        }
    }

    /// Works on one key's state alone; `act` says whether it changed it.
    pub(crate) fn visit(
        &self,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        match &self.store {
            Store::Unkeyed(state) => match state.visit(now, act) {
                0 => Place::Own,
                // Batches move the bucket back when they end: what others took meanwhile cannot be told
                // apart any more, and only what is held can be given back.
                _ => Place::Strict,
            },
            Store::Keyed(states) => states.visit(key, now, act),
        }
    }

    /// Works on the state something was taken from before.
    pub(crate) fn at_place(
        &self,
        key: KeyHash,
        place: Place,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]),
    ) {
        match &self.store {
            Store::Unkeyed(state) => {
                state.visit(now, &mut |plan, words| {
                    act(plan, words);
                    true
                });
            }
            Store::Keyed(states) => states.at_place(key, place, act),
        }
    }

    /// Whether callers wait for this key; then nobody may pass them.
    #[inline]
    pub(crate) fn has_line(&self, key: KeyHash) -> bool {
        self.room.is_occupied() && self.room.has_line(key)
    }

    /// Decides without keeping hold of anything, for a limiter without keys.
    #[inline(always)]
    pub(super) fn decide_unkeyed(&self, cost: u64) -> Decision {
        // The clock first: everything else is done while it is being read.
        let now = self.clock.now();
        match &self.store {
            Store::Unkeyed(state) if !self.room.is_occupied() => state.decide(now, cost),
            _ => self.decide_with_line(NO_KEY, cost),
        }
    }

    /// Decides without keeping hold of anything, for one key.
    #[inline(always)]
    pub(super) fn decide_keyed(&self, key: &(impl Hash + ?Sized), cost: u64) -> Decision {
        match &self.store {
            Store::Keyed(states) if !self.room.is_occupied() => {
                let key = crate::table::hash_with(states.seed(), key);
                states.decide(key, &self.clock, cost)
            }
            _ => self.decide_with_line(self.hash(key), cost),
        }
    }

    /// [`Inner::decide_keyed`] for a key that has been hashed.
    pub(super) fn decide_hashed(&self, key: KeyHash, cost: u64) -> Decision {
        match &self.store {
            Store::Keyed(states) if !self.room.is_occupied() => states.decide(key, &self.clock, cost),
            _ => self.decide_with_line(key, cost),
        }
    }

    /// Decides where somebody may be waiting.
    #[cold]
    #[inline(never)]
    fn decide_with_line(&self, key: KeyHash, cost: u64) -> Decision {
        if cost > 0 && self.has_line(key) {
            return self.behind_line(key, self.clock.now(), cost);
        }
        match &self.store {
            Store::Unkeyed(state) => state.decide(self.clock.now(), cost),
            Store::Keyed(states) => states.decide(key, &self.clock, cost),
        }
    }

    /// Decides and keeps hold of what was taken.
    pub(crate) fn take(&self, key: KeyHash, now: Timestamp, cost: u64, entry: Entry) -> Tried {
        let mut tried = Tried { decision: NO_STATE, taken: None };
        let place = self.visit(key, now, &mut |plan, state| {
            let ruling = plan.check(state, now, cost, entry);
            if ruling.admits() {
                plan.take(state, now, cost, self.is_reservable(), &mut tried.taken);
            }
            tried.decision = plan.decision(ruling, state, now);
            tried.taken.is_some() && cost > 0
        });
        match &mut tried.taken {
            Some(taking) => {
                taking.place = place;
                self.note_taken(taking);
            }
            None => self.wait_for_batches(cost, &mut tried.decision),
        }
        tried
    }

    /// Counts the permits of what was taken, until it [ends](Self::end).
    #[inline]
    pub(crate) fn note_taken(&self, taking: &Taking) {
        if taking.is_held() {
            self.permits.fetch_add(taking.permits(), Ordering::Relaxed);
        }
    }

    /// How many permits callers hold, over all keys.
    pub(crate) fn permits(&self) -> u64 {
        self.permits.load(Ordering::Relaxed)
    }

    /// How much of the tightest limit is used, from 0 to 1, of a limiter without keys.
    pub(crate) fn used(&self, now: Timestamp) -> f64 {
        let (plan, state) = self.snapshot(NO_KEY, now);
        let share = |it: &Status| it.limit.saturating_sub(it.remaining) as f64 / it.limit.max(1) as f64;
        plan.statuses(&state, now).iter().map(share).fold(0.0, f64::max)
    }

    /// What is out in batches comes back when their holders are done with it: no clock can tell when.
    fn wait_for_batches(&self, cost: u64, decision: &mut Decision) {
        if let (Store::Unkeyed(state), Verdict::Denied { retry_after: Some(_) }) = (&self.store, decision.verdict)
            && state.is_out(cost)
        {
            decision.verdict = Verdict::Denied { retry_after: None };
        }
    }

    /// Ends what was taken with what it really cost.
    pub(crate) fn end(&self, key: KeyHash, taking: &Taking, actual: u64) {
        let now = self.clock.now();
        if taking.is_held() {
            self.permits.fetch_sub(taking.permits(), Ordering::Relaxed);
        }
        // Whoever is not found there is charged all the same.
        let mut due = actual.saturating_sub(taking.cost);
        self.at_place(key, taking.place, now, &mut |plan, state| due = plan.end(state, taking, actual, now));
        if due > 0 {
            self.visit(key, now, &mut |plan, state| {
                plan.charge(state, now, due);
                true
            });
        }
        self.call_waiters(key, taking.place);
    }

    /// Gives back what is held of a key, and nothing else.
    pub(crate) fn release(&self, key: KeyHash, place: Place, holds: &Holds) {
        self.permits.fetch_sub(holds.permits(), Ordering::Relaxed);
        let now = self.clock.now();
        self.at_place(key, place, now, &mut |plan, state| plan.release(state, holds, now));
        self.call_waiters(key, place);
    }

    /// Has those look again who wait for what was just given back.
    fn call_waiters(&self, key: KeyHash, place: Place) {
        match place {
            Place::Own => self.room.wake(key),
            // Other keys share that state, and their callers may wait for it.
            Place::Strict => self.room.disturb(),
        }
    }

    /// Gives back what somebody took from a key, nobody knows when. A key that is not known has nothing to get back.
    pub(crate) fn refund(&self, key: KeyHash, amount: u64) {
        let now = self.clock.now();
        self.at_place(key, Place::Own, now, &mut |plan, state| plan.refund(state, now, amount));
        self.room.wake(key);
    }

    /// The present core of a keyed limiter, for callers who ask often and can live with its being
    /// replaced.
    pub(crate) fn core(&self) -> Option<Arc<KeyedCore>> {
        match &self.store {
            Store::Unkeyed(_) => None,
            Store::Keyed(states) => Some(states.core()),
        }
    }

    /// [`Inner::visit`] for callers that know the core.
    pub(crate) fn visit_known(
        &self,
        core: Option<&KeyedCore>,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        match (&self.store, core) {
            (Store::Keyed(states), Some(core)) => states.visit_known(core, key, now, act),
            _ => self.visit(key, now, act),
        }
    }

    pub(crate) fn is_reservable(&self) -> bool {
        self.reservable.load(Ordering::Relaxed)
    }

    /// The answer to a caller who does not want to wait while others do.
    #[cold]
    pub(crate) fn behind_line(&self, key: KeyHash, now: Timestamp, cost: u64) -> Decision {
        let (plan, mut state) = self.snapshot(key, now);
        let ruling = plan.check(&state, now, cost, Entry::Depart);
        let mut decision = plan.decision(ruling, &state, now);
        if !matches!(decision.verdict, Verdict::Never) {
            let turn = self.room.forecast(key, &plan, &mut state, now, cost);
            decision.verdict = Verdict::Denied { retry_after: turn.map(|turn| turn - now) };
        }
        decision
    }

    /// A copy of a key's state with the plan it belongs to.
    pub(crate) fn snapshot(&self, key: KeyHash, now: Timestamp) -> (Arc<Plan>, Vec<u64>) {
        let mut copy = None;
        self.visit(key, now, &mut |plan, state| {
            copy = Some((Arc::clone(plan), state.to_vec()));
            false
        });
        copy.unwrap_or_else(|| {
            let plan = self.plan();
            let words = plan.words();
            (plan, vec![0; words])
        })
    }

    pub(super) fn statuses(&self, key: KeyHash) -> Vec<Status> {
        let now = self.clock.now();
        let (plan, state) = self.snapshot(key, now);
        plan.statuses(&state, now)
    }

    /// Exchanges the limits; the number of keys stays.
    pub(crate) fn change(&self, limits: Vec<Limit>) -> Result<(), LimitError> {
        self.rebuild(limits, self.is_reservable(), self.buckets())
    }

    /// Exchanges the limits, whether they are reservable, and how many buckets of keys there are.
    pub(crate) fn rebuild(&self, limits: Vec<Limit>, reservable: bool, buckets: usize) -> Result<(), LimitError> {
        let plan = Builder::plan(limits, reservable)?;
        match &self.store {
            Store::Unkeyed(state) => state.change(plan, &self.clock),
            Store::Keyed(states) => states.change(plan, buckets, &self.clock)?,
        }
        self.reservable.store(reservable, Ordering::Relaxed);
        self.room.disturb();
        Ok(())
    }

    pub(crate) fn forgotten(&self) -> u64 {
        match &self.store {
            Store::Unkeyed(_) => 0,
            Store::Keyed(states) => states.core().table.forgotten(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.store {
            Store::Unkeyed(_) => size_of::<Self>(),
            Store::Keyed(states) => states.core().table.bytes(),
        }
    }

    /// How many buckets of keys there are; none without keys.
    pub(crate) fn buckets(&self) -> usize {
        match &self.store {
            Store::Unkeyed(_) => 0,
            Store::Keyed(states) => states.core().table.buckets(),
        }
    }

    /// Forgets one key, but for what is held.
    pub(crate) fn forget(&self, key: KeyHash) {
        let now = self.clock.now();
        self.at_place(key, Place::Own, now, &mut |plan, state| plan.forgive(state, now));
        self.room.disturb();
    }

    /// The longest wait the clock alone imposes on a caller, whatever others hold.
    pub(crate) fn least_wait(&self, key: KeyHash, now: Timestamp, cost: u64) -> Duration {
        let (plan, state) = self.snapshot(key, now);
        plan.least_wait(&state, now, cost)
    }
}

/// Answered where a state could not be reached, which the table's construction rules out: refuse.
pub(crate) const NO_STATE: Decision = Decision {
    verdict: Verdict::Denied { retry_after: None },
    limit: 0,
    status: Status { limit: 0, remaining: 0, reset: 0 },
};
