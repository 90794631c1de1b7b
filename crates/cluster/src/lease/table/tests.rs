use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Rate};

use super::*;
use crate::lease::ledger::Ledger;

/// Keeps what was sent until the test delivers it.
struct Post(Mutex<Sender<Parcel>>);

impl Messenger for Post {
    fn send(&self, parcel: Parcel) {
        // A test that has ended hears nothing more.
        _ = self.0.lock().send(parcel);
    }
}

struct Fixture {
    clock: ManualClock,
    table: Arc<LeaseTable>,
    counters: Arc<LeaseCounters>,
    sent: Receiver<Parcel>,
    ledger: Ledger,
}

const MICROS: u64 = 1_800_000_000_000_000;

impl Fixture {
    fn new(burst: u64, keys: usize) -> Self {
        let terms = Leasable::of(&[Limit::token_bucket(Rate::per_second(1_000).unwrap(), burst).unwrap()]).unwrap();
        let (sender, sent) = channel();
        let clock = ManualClock::new();
        let ledger = Ledger::new(&terms);
        let messenger = Arc::new(Post(Mutex::new(sender)));
        let counters = Arc::<LeaseCounters>::default();
        let table = LeaseTable::new(terms, NodeId(1), keys, clock.clone().into(), messenger, Arc::clone(&counters));
        Self { clock, table: Arc::new(table), counters, sent, ledger }
    }

    fn take(&self, hash: u64, cost: u64) -> Local {
        self.table.take(hash, cost, || StoreKey(hash.to_string().into()))
    }

    /// Lets the store answer everything that was sent.
    fn deliver(&mut self) -> usize {
        let mut delivered = 0;
        while let Ok(parcel) = self.sent.try_recv() {
            let reply = self.ledger.apply(&parcel.terms, MICROS, &parcel.request);
            self.table.answered(parcel.hash, &parcel.request.account, &reply);
            delivered += 1;
        }
        delivered
    }

    /// What became of slices: taken, renewed, returned, expired.
    fn turns(&self) -> [u64; 4] {
        let LeaseCounters { taken, renewed, returned, expired, .. } = &*self.counters;
        [taken, renewed, returned, expired].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Takes one by one until a slice is there.
    fn warm_up(&mut self) -> u64 {
        let mut taken = 0;
        loop {
            match self.take(7, 1) {
                Local::Taken(..) => return taken + 1,
                Local::Waiting(mut waiting) => {
                    self.clock.advance(Duration::from_millis(3));
                    self.deliver();
                    assert!(matches!(poll(&mut waiting), Poll::Ready((Outcome::Taken(_), _))));
                    taken += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn poll(waiting: &mut Waiting) -> Poll<(Outcome, Option<Status>)> {
    std::pin::Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_first_caller_is_served_in_one_round_trip() {
    let mut fixture = Fixture::new(100, 10);
    let Local::Waiting(mut waiting) = fixture.take(7, 1) else { panic!("served from nothing") };
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(fixture.deliver(), 1);
    let Poll::Ready((Outcome::Taken(_), Some(status))) = poll(&mut waiting) else { panic!("not served") };
    assert_eq!((status.limit, status.remaining), (100, 99));
}

#[test]
fn a_busy_key_is_served_here() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    let served = (0..100).filter(|_| matches!(fixture.take(7, 1), Local::Taken(..))).count();
    assert!(served > 5, "{served}");
}

#[test]
fn more_than_the_limit_is_never_had_and_a_look_costs_nothing() {
    let fixture = Fixture::new(100, 10);
    assert!(matches!(fixture.take(7, 101), Local::Never));
    assert!(matches!(fixture.take(7, 0), Local::Taken(slip, _) if slip.cost == 0));
    assert!(fixture.sent.try_recv().is_err());
}

#[test]
fn what_the_store_refused_is_refused_here_for_a_while() {
    let mut fixture = Fixture::new(10, 10);
    let Local::Waiting(mut first) = fixture.take(7, 10) else { panic!() };
    fixture.deliver();
    assert!(matches!(poll(&mut first), Poll::Ready((Outcome::Taken(_), _))));
    let Local::Waiting(mut second) = fixture.take(7, 5) else { panic!() };
    fixture.deliver();
    assert_eq!(poll(&mut second).map(|(outcome, _)| outcome), Poll::Ready(Outcome::NotBefore(5_000_000)));
    assert!(matches!(fixture.take(7, 5), Local::NotBefore(5_000_000, _)));
    assert!(fixture.sent.try_recv().is_err(), "the store is left in peace");
    fixture.clock.advance(Duration::from_millis(8));
    assert!(matches!(fixture.take(7, 5), Local::Waiting(_)));
}

#[test]
fn a_failed_request_is_told_and_the_next_has_another_number() {
    let fixture = Fixture::new(100, 10);
    let Local::Waiting(mut waiting) = fixture.take(7, 1) else { panic!() };
    let first = fixture.sent.try_recv().unwrap();
    fixture.table.failed(7, &first.request.account);
    assert_eq!(poll(&mut waiting).map(|(outcome, _)| outcome), Poll::Ready(Outcome::Failed));
    let Local::Waiting(_waiting) = fixture.take(7, 1) else { panic!() };
    let second = fixture.sent.try_recv().unwrap();
    assert!(second.request.account.sequence > first.request.account.sequence);
}

#[test]
fn what_a_caller_that_has_gone_was_to_have_goes_back() {
    let mut fixture = Fixture::new(10_000, 10);
    fixture.warm_up();
    // Use up the slice, so that callers wait, and have more than enough of them granted.
    let mut waiting = Vec::new();
    while waiting.len() < 6 {
        match fixture.take(7, 1) {
            Local::Taken(..) => {}
            Local::Waiting(one) => waiting.push(one),
            other => panic!("{other:?}"),
        }
    }
    let before = waiting.len();
    let gone_early = waiting.pop();
    drop(gone_early);
    fixture.clock.advance(Duration::from_millis(3));
    fixture.deliver();
    let gone_late = waiting.pop();
    drop(gone_late);
    let told = waiting.iter_mut().map(poll).filter(|told| matches!(told, Poll::Ready((Outcome::Taken(_), _))));
    assert_eq!(told.count(), before - 2);
    drop(waiting);
    fixture.table.close();
    fixture.deliver();
    assert_eq!(fixture.ledger.out(), 0);
}

#[test]
fn idle_keys_give_back_and_are_forgotten() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    assert!(fixture.ledger.out() > 0);
    fixture.clock.advance(Duration::from_millis(250));
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 1);
    assert_eq!(fixture.ledger.out(), 0);
    fixture.table.tick();
    assert_eq!(fixture.table.len(), 0);
}

/// What whoever watches is told is held, and no more than the store knows to be out.
#[test]
fn what_is_held_is_counted() {
    let mut fixture = Fixture::new(1_000, 10);
    assert_eq!(fixture.table.tick(), Held::default());
    fixture.warm_up();
    fixture.deliver();
    let told = |fixture: &mut Fixture| {
        let held = fixture.table.tick();
        fixture.deliver();
        held
    };
    let held = told(&mut fixture);
    assert_eq!(held.keys, 1);
    // The store learns later what was spent: until then it is out.
    assert!(held.tokens > 0 && held.tokens <= fixture.ledger.out(), "{held:?} {}", fixture.ledger.out());
    let [taken, _, returned, expired] = fixture.turns();
    assert!(taken > 0 && returned <= taken && expired == 0, "{:?}", fixture.turns());
    let Local::Taken(..) = fixture.take(7, 1) else { panic!("not from the slice") };
    assert_eq!(fixture.table.tick().tokens, held.tokens - 1);

    // Nobody asks: it goes back.
    fixture.clock.advance(Duration::from_millis(250));
    assert_eq!(told(&mut fixture), Held::default());
    assert_eq!(fixture.ledger.out(), 0);
    assert_eq!(fixture.turns()[2..], [returned + 1, 0]);
}

#[test]
fn a_slice_that_lasts_longer_is_renewed_and_one_that_ends_has_expired() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    fixture.table.tick();
    let [taken, renewed, returned, _] = fixture.turns();
    // Asked for again and again, a slice is topped up before it is used up.
    for _ in 0..40 {
        fixture.clock.advance(Duration::from_millis(1));
        fixture.take(7, 1);
        fixture.deliver();
    }
    assert!(fixture.table.tick().keys == 1);
    assert!(fixture.turns()[1] > renewed, "{:?}", fixture.turns());
    assert_eq!(fixture.turns()[3], 0);

    // The store is gone for longer than a lease lasts.
    fixture.clock.advance(Duration::from_secs(3));
    assert_eq!(fixture.table.tick(), Held::default());
    assert_eq!(fixture.turns()[3], 1);
    assert!(fixture.turns()[0] >= taken && fixture.turns()[2] >= returned);
}

/// Whoever makes room or is closed gives back, and that is counted although its table looks after it no more.
#[test]
fn slices_of_those_who_go_are_returned() {
    let mut fixture = Fixture::new(1_000, 10);
    fixture.warm_up();
    fixture.deliver();
    fixture.table.tick();
    let [.., returned, _] = fixture.turns();
    fixture.table.close();
    fixture.deliver();
    assert_eq!((fixture.ledger.out(), fixture.turns()[2]), (0, returned + 1));
    assert_eq!(fixture.table.tick(), Held::default());
}

#[test]
fn there_are_never_more_keys_than_fit() {
    let mut fixture = Fixture::new(1_000, SHARDS * 2);
    for hash in 0..10_000u64 {
        if let Local::Waiting(waiting) = fixture.take(hash << 32 | hash, 1) {
            fixture.ledger = Ledger::new(&fixture.table.terms);
            fixture.deliver();
            drop(waiting);
        }
    }
    assert!(fixture.table.len() <= SHARDS * 2, "{}", fixture.table.len());
}

#[test]
fn what_cost_more_is_charged() {
    let mut fixture = Fixture::new(100, 10);
    // Also if the key has been forgotten meanwhile.
    fixture.table.charge(7, 30, || StoreKey("7".into()));
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 1);
    assert_eq!(fixture.ledger.free(&fixture.table.terms), 70);
    fixture.table.tick();
    assert_eq!(fixture.deliver(), 0, "once");
}

/// Answers by itself, on a thread of its own.
struct Wire {
    parcels: Mutex<Sender<Parcel>>,
}

impl Messenger for Wire {
    fn send(&self, parcel: Parcel) {
        _ = self.parcels.lock().send(parcel);
    }
}

#[test]
fn threads_together_take_exactly_what_was_granted() {
    const BURST: u64 = 200_000;
    let terms = Leasable::of(&[Limit::token_bucket(Rate::per_second(1).unwrap(), BURST).unwrap()]).unwrap();
    let clock = ManualClock::new();
    let (sender, parcels) = channel::<Parcel>();
    let messenger = Arc::new(Wire { parcels: Mutex::new(sender) });
    let table = LeaseTable::new(terms.clone(), NodeId(1), 10, clock.clone().into(), messenger, Arc::default());
    let table = Arc::new(table);
    let weak: Weak<LeaseTable> = Arc::downgrade(&table);
    let store = thread::spawn(move || {
        let mut ledger = Ledger::new(&terms);
        for parcel in parcels {
            let reply = ledger.apply(&terms, MICROS, &parcel.request);
            if let Some(table) = weak.upgrade() {
                table.answered(parcel.hash, &parcel.request.account, &reply);
            }
        }
        ledger
    });
    let done = Arc::new(AtomicBool::new(false));
    let turning = {
        let (clock, done) = (clock.clone(), Arc::clone(&done));
        thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                clock.advance(Duration::from_micros(100));
                thread::yield_now();
            }
        })
    };
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let (mut taken, mut refused) = (0u64, 0);
                while refused < 1_000 {
                    match table.take(7, 1, || StoreKey("k".into())) {
                        Local::Taken(..) => taken += 1,
                        Local::Waiting(waiting) => match runtime.block_on(waiting).0 {
                            Outcome::Taken(_) => taken += 1,
                            _ => refused += 1,
                        },
                        _ => refused += 1,
                    }
                }
                taken
            })
        })
        .collect();
    let taken: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    done.store(true, Ordering::Relaxed);
    turning.join().unwrap();
    table.close();
    let free_at_most = BURST - taken;
    drop(table);
    let ledger = store.join().unwrap();
    assert_eq!(ledger.out(), 0);
    // The store's clock stood still: what is not free was taken, every bit of it once.
    assert_eq!(
        ledger.free(&Leasable::of(&[Limit::token_bucket(Rate::per_second(1).unwrap(), BURST).unwrap()]).unwrap()),
        free_at_most
    );
    assert!(taken >= BURST * 9 / 10, "{taken}");
}
