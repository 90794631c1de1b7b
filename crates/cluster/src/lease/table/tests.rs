use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Rate};

use super::*;
use crate::lease::model::LeaseModel;

/// Queues requests until the test delivers them.
struct RecordingTransport(Mutex<Sender<LeaseMessage>>);

impl LeaseTransport for RecordingTransport {
    fn send(&self, message: LeaseMessage) {
        // The test may have ended.
        _ = self.0.lock().send(message);
    }
}

struct Fixture {
    clock: ManualClock,
    table: Arc<LeaseTable>,
    counters: Arc<LeaseCounters>,
    sent: Receiver<LeaseMessage>,
    model: LeaseModel,
}

const MICROS: u64 = 1_800_000_000_000_000;

impl Fixture {
    fn new(burst: u64, keys: usize) -> Self {
        let params =
            LeaseParams::from_limits(&[Limit::token_bucket(Rate::per_second(1_000).unwrap(), burst).unwrap()]).unwrap();
        let (sender, sent) = channel();
        let clock = ManualClock::new();
        let model = LeaseModel::new(&params);
        let transport = Arc::new(RecordingTransport(Mutex::new(sender)));
        let counters = Arc::<LeaseCounters>::default();
        let table = LeaseTable::new(params, NodeId(1), keys, clock.clone().into(), transport, Arc::clone(&counters));
        Self { clock, table: Arc::new(table), counters, sent, model }
    }

    fn take(&self, hash: u64, cost: u64) -> LocalResult {
        self.table.take(hash, cost, || StoreKey(hash.to_string().into()))
    }

    /// Processes every queued request in the store.
    fn deliver(&mut self) -> usize {
        let mut delivered = 0;
        while let Ok(message) = self.sent.try_recv() {
            let reply = self.model.apply(&message.params, MICROS, &message.request);
            self.table.on_reply(message.hash, &message.request.account, &reply);
            delivered += 1;
        }
        delivered
    }

    /// Slice statistics: acquired, renewed, returned, expired.
    fn stats(&self) -> [u64; 4] {
        let LeaseCounters { acquired, renewed, returned, expired, .. } = &*self.counters;
        [acquired, renewed, returned, expired].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Takes one token at a time until there is a slice.
    fn warm_up(&mut self) -> u64 {
        let mut taken = 0;
        loop {
            match self.take(7, 1) {
                LocalResult::Acquired(..) => return taken + 1,
                LocalResult::Waiting(mut waiting) => {
                    self.clock.advance(Duration::from_millis(3));
                    self.deliver();
                    assert!(matches!(poll(&mut waiting), Poll::Ready((LeaseOutcome::Acquired(_), _))));
                    taken += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn poll(waiting: &mut LeaseWait) -> Poll<(LeaseOutcome, Option<Status>)> {
    std::pin::Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_first_caller_is_served_in_one_round_trip() {
    let mut fixture = Fixture::new(100, 10);
    let LocalResult::Waiting(mut waiting) = fixture.take(7, 1) else { panic!("admitted without a slice") };
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(fixture.deliver(), 1);
    let Poll::Ready((LeaseOutcome::Acquired(_), Some(status))) = poll(&mut waiting) else { panic!("not served") };
    assert_eq!((status.limit, status.remaining), (100, 99));
}

#[test]
fn a_busy_key_is_served_locally() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    let served = (0..100).filter(|_| matches!(fixture.take(7, 1), LocalResult::Acquired(..))).count();
    assert!(served > 5, "{served}");
}

#[test]
fn a_cost_above_the_limit_never_fits_and_a_zero_cost_is_free() {
    let fixture = Fixture::new(100, 10);
    assert!(matches!(fixture.take(7, 101), LocalResult::Never));
    assert!(matches!(fixture.take(7, 0), LocalResult::Acquired(receipt, _) if receipt.cost == 0));
    assert!(fixture.sent.try_recv().is_err());
}

#[test]
fn a_store_refusal_is_cached_locally() {
    let mut fixture = Fixture::new(10, 10);
    let LocalResult::Waiting(mut first) = fixture.take(7, 10) else { panic!() };
    fixture.deliver();
    assert!(matches!(poll(&mut first), Poll::Ready((LeaseOutcome::Acquired(_), _))));
    let LocalResult::Waiting(mut second) = fixture.take(7, 5) else { panic!() };
    fixture.deliver();
    assert_eq!(poll(&mut second).map(|(outcome, _)| outcome), Poll::Ready(LeaseOutcome::NotBefore(5_000_000)));
    assert!(matches!(fixture.take(7, 5), LocalResult::NotBefore(5_000_000, _)));
    assert!(fixture.sent.try_recv().is_err(), "the store gets no calls");
    fixture.clock.advance(Duration::from_millis(8));
    assert!(matches!(fixture.take(7, 5), LocalResult::Waiting(_)));
}

#[test]
fn a_failed_request_is_reported_and_the_next_has_a_higher_sequence() {
    let fixture = Fixture::new(100, 10);
    let LocalResult::Waiting(mut waiting) = fixture.take(7, 1) else { panic!() };
    let first = fixture.sent.try_recv().unwrap();
    fixture.table.on_failure(7, &first.request.account);
    assert_eq!(poll(&mut waiting).map(|(outcome, _)| outcome), Poll::Ready(LeaseOutcome::Failed));
    let LocalResult::Waiting(_waiting) = fixture.take(7, 1) else { panic!() };
    let second = fixture.sent.try_recv().unwrap();
    assert!(second.request.account.sequence > first.request.account.sequence);
}

#[test]
fn tokens_granted_to_cancelled_callers_are_returned() {
    let mut fixture = Fixture::new(10_000, 10);
    fixture.warm_up();
    // Use up the slice so that callers wait; the next grant is more than enough for them.
    let mut waiting = Vec::new();
    while waiting.len() < 6 {
        match fixture.take(7, 1) {
            LocalResult::Acquired(..) => {}
            LocalResult::Waiting(one) => waiting.push(one),
            other => panic!("{other:?}"),
        }
    }
    let before = waiting.len();
    let dropped_early = waiting.pop();
    drop(dropped_early);
    fixture.clock.advance(Duration::from_millis(3));
    fixture.deliver();
    let dropped_late = waiting.pop();
    drop(dropped_late);
    let notified =
        waiting.iter_mut().map(poll).filter(|notified| matches!(notified, Poll::Ready((LeaseOutcome::Acquired(_), _))));
    assert_eq!(notified.count(), before - 2);
    drop(waiting);
    fixture.table.close();
    fixture.deliver();
    assert_eq!(fixture.model.outstanding(), 0);
}

#[test]
fn idle_keys_return_their_slice_and_are_dropped() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    assert!(fixture.model.outstanding() > 0);
    fixture.clock.advance(Duration::from_millis(250));
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 1);
    assert_eq!(fixture.model.outstanding(), 0);
    fixture.table.tick();
    assert_eq!(fixture.table.len(), 0);
}

/// Reported holdings never exceed the store's outstanding amount.
#[test]
fn holdings_are_counted() {
    let mut fixture = Fixture::new(1_000, 10);
    assert_eq!(fixture.table.tick(), LeaseHoldings::default());
    fixture.warm_up();
    fixture.deliver();
    let notified = |fixture: &mut Fixture| {
        let held = fixture.table.tick();
        fixture.deliver();
        held
    };
    let held = notified(&mut fixture);
    assert_eq!(held.keys, 1);
    // Spending is reported later: until then it is outstanding.
    assert!(held.tokens > 0 && held.tokens <= fixture.model.outstanding(), "{held:?} {}", fixture.model.outstanding());
    let [acquired, _, returned, expired] = fixture.stats();
    assert!(acquired > 0 && returned <= acquired && expired == 0, "{:?}", fixture.stats());
    let LocalResult::Acquired(..) = fixture.take(7, 1) else { panic!("not from the slice") };
    assert_eq!(fixture.table.tick().tokens, held.tokens - 1);

    // Without use the slice is returned.
    fixture.clock.advance(Duration::from_millis(250));
    assert_eq!(notified(&mut fixture), LeaseHoldings::default());
    assert_eq!(fixture.model.outstanding(), 0);
    assert_eq!(fixture.stats()[2..], [returned + 1, 0]);
}

#[test]
fn extended_slices_count_as_renewed_and_ended_ones_as_expired() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    fixture.table.tick();
    let [acquired, renewed, returned, _] = fixture.stats();
    // Under steady use a slice is topped up before it is used up.
    for _ in 0..40 {
        fixture.clock.advance(Duration::from_millis(1));
        fixture.take(7, 1);
        fixture.deliver();
    }
    assert!(fixture.table.tick().keys == 1);
    assert!(fixture.stats()[1] > renewed, "{:?}", fixture.stats());
    assert_eq!(fixture.stats()[3], 0);

    // The store is unreachable for longer than a lease lasts.
    fixture.clock.advance(Duration::from_secs(3));
    assert_eq!(fixture.table.tick(), LeaseHoldings::default());
    assert_eq!(fixture.stats()[3], 1);
    assert!(fixture.stats()[0] >= acquired && fixture.stats()[2] >= returned);
}

/// Evicted and closed holders return their slices, and that is counted although they left the table.
#[test]
fn slices_of_closed_holders_are_returned() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    fixture.table.tick();
    let [.., returned, _] = fixture.stats();
    fixture.table.close();
    fixture.deliver();
    assert_eq!((fixture.model.outstanding(), fixture.stats()[2]), (0, returned + 1));
    assert_eq!(fixture.table.tick(), LeaseHoldings::default());
}

#[test]
fn the_key_count_never_exceeds_the_capacity() {
    let mut fixture = Fixture::new(1_000, SHARDS * 2);
    for hash in 0..10_000u64 {
        if let LocalResult::Waiting(waiting) = fixture.take(hash << 32 | hash, 1) {
            fixture.model = LeaseModel::new(&fixture.table.params);
            fixture.deliver();
            drop(waiting);
        }
    }
    assert!(fixture.table.len() <= SHARDS * 2, "{}", fixture.table.len());
}

#[test]
fn a_higher_actual_cost_is_charged() {
    let mut fixture = Fixture::new(100, 10);
    // Also if the key is no longer in the table.
    fixture.table.charge(7, 30, || StoreKey("7".into()));
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 1);
    assert_eq!(fixture.model.available(&fixture.table.params), 70);
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 0, "once");
}

/// Transport that replies on its own thread.
struct ThreadTransport {
    messages: Mutex<Sender<LeaseMessage>>,
}

impl LeaseTransport for ThreadTransport {
    fn send(&self, message: LeaseMessage) {
        _ = self.messages.lock().send(message);
    }
}

#[test]
fn threads_together_take_exactly_what_was_granted() {
    const BURST: u64 = 200_000;
    let params =
        LeaseParams::from_limits(&[Limit::token_bucket(Rate::per_second(1).unwrap(), BURST).unwrap()]).unwrap();
    let clock = ManualClock::new();
    let (sender, messages) = channel::<LeaseMessage>();
    let transport = Arc::new(ThreadTransport { messages: Mutex::new(sender) });
    let table = LeaseTable::new(params.clone(), NodeId(1), 10, clock.clone().into(), transport, Arc::default());
    let table = Arc::new(table);
    let weak: Weak<LeaseTable> = Arc::downgrade(&table);
    let store = thread::spawn(move || {
        let mut model = LeaseModel::new(&params);
        for message in messages {
            let reply = model.apply(&params, MICROS, &message.request);
            if let Some(table) = weak.upgrade() {
                table.on_reply(message.hash, &message.request.account, &reply);
            }
        }
        model
    });
    let done = Arc::new(AtomicBool::new(false));
    let ticker = {
        let (clock, done) = (clock.clone(), Arc::clone(&done));
        thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                clock.advance(Duration::from_micros(100));
                thread::yield_now();
            }
        })
    };
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let (mut taken, mut refused) = (0u64, 0);
                while refused < 1_000 {
                    match table.take(7, 1, || StoreKey("k".into())) {
                        LocalResult::Acquired(..) => taken += 1,
                        LocalResult::Waiting(waiting) => match runtime.block_on(waiting).0 {
                            LeaseOutcome::Acquired(_) => taken += 1,
                            _ => refused += 1,
                        },
                        _ => refused += 1,
                    }
                }
                taken
            })
        })
        .collect();
    let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    done.store(true, Ordering::Relaxed);
    ticker.join().unwrap();
    table.close();
    let free_at_most = BURST - taken;
    drop(table);
    let model = store.join().unwrap();
    assert_eq!(model.outstanding(), 0);
    // The store's clock stood still: every unavailable token was taken exactly once.
    assert_eq!(
        model.available(
            &LeaseParams::from_limits(&[Limit::token_bucket(Rate::per_second(1).unwrap(), BURST).unwrap()]).unwrap()
        ),
        free_at_most
    );
    assert!(taken >= BURST * 9 / 10, "{taken}");
}
