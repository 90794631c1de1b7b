//! The driver against real servers, with a script that only counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod cancellation;
mod closing;
mod cluster;
mod deadline;
mod errors;
mod gathering;
mod heartbeat;
mod login;
mod outage;
mod sentinel;

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::{Value, from_redis_value};
use sluicegate_testkit::servers::RedisServer;

use super::{Asking, Batch, Driver};
use crate::error::{Failure, StoreError};
use crate::health::State;
use crate::invocation::{Invocation, Script};
use crate::options::{StoreOptions, Topology};
use crate::slot::slot_of;

/// Long enough that a busy machine does not pass it.
const AMPLE: Duration = Duration::from_secs(5);
/// How long anything may take. Only a guard against hanging.
const GUARD: Duration = Duration::from_secs(30);

impl<B: Batch> Asking<B> {
    /// Waits for the answer on this thread.
    fn wait(self) -> Result<B::Answer, Failure> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let mut this = pin!(tokio::task::coop::unconstrained(self));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match this.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Adds to counters and says what they are then.
pub(super) struct Counting;

#[derive(Clone, Debug)]
pub(super) struct Add {
    key: String,
    amount: i64,
}

static COUNT: LazyLock<Script> = LazyLock::new(|| {
    let source = "local sums = {}\n\
                  for nth, key in ipairs(KEYS) do\n\
                    sums[nth] = redis.call('INCRBY', key, ARGV[nth])\n\
                    redis.call('PEXPIRE', key, 60000)\n\
                  end\n\
                  return sums";
    Script::new(source)
});

fn counting(adds: impl Iterator<Item = (String, i64)>) -> Invocation {
    let (keys, arguments) = adds.map(|(key, amount)| (Bytes::from(key), Bytes::from(amount.to_string()))).unzip();
    Invocation { script: &COUNT, keys, arguments }
}

impl Batch for Counting {
    type Item = Add;
    type Answer = i64;

    fn slot(&self, item: &Add) -> u16 {
        slot_of(item.key.as_bytes())
    }

    fn encode(&self, items: &[Add]) -> Invocation {
        counting(items.iter().map(|add| (add.key.clone(), add.amount)))
    }

    fn decode(&self, reply: Value, _: &[Add]) -> Result<Vec<i64>, StoreError> {
        from_redis_value(reply).map_err(|error| StoreError::unintelligible(error.to_string()))
    }

    fn undo(&self, unheard: &[(Add, i64)]) -> Option<Invocation> {
        Some(counting(unheard.iter().map(|(add, _)| (add.key.clone(), -add.amount))))
    }
}

fn add(key: &str, amount: i64) -> Add {
    Add { key: key.to_owned(), amount }
}

fn single(address: impl Into<String>) -> StoreOptions {
    StoreOptions::new(Topology::Single, [address.into()])
}

fn start(options: &StoreOptions) -> Driver<Counting> {
    Driver::start(options, Counting, vec![&COUNT]).unwrap()
}

/// A driver that has connected, with this deadline.
fn connected(mut options: StoreOptions, deadline: Duration) -> Driver<Counting> {
    options.deadline = deadline;
    let driver = start(&options);
    until("connected", || driver.health().state == State::Connected);
    driver
}

fn until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < GUARD, "not {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

/// Asks one after the other until one is answered. How long that took, and the answer.
fn until_answered(driver: &Driver<Counting>, key: &str) -> (Duration, i64) {
    let mut answer = None;
    let took = until("answered", || {
        answer = driver.ask(add(key, 1)).wait().ok();
        answer.is_some()
    });
    (took, answer.unwrap())
}

fn stored(server: &RedisServer, key: &str) -> i64 {
    server.command(&["GET", key]).unwrap().parse().unwrap_or(0)
}

/// Asks from many threads until told to stop. How many answers, and the failures.
struct Load {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    threads: Vec<std::thread::JoinHandle<(u64, Vec<Failure>)>>,
}

impl Load {
    fn start(driver: &Driver<Counting>, threads: usize, key: impl Fn(u64) -> String + Clone + Send + 'static) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let work = |nth: usize| {
            let (driver, stop, key) = (driver.clone(), stop.clone(), key.clone());
            std::thread::spawn(move || {
                let (mut answers, mut failures) = (0, Vec::new());
                let mut count = nth as u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    match driver.ask(add(&key(count), 1)).wait() {
                        Ok(_) => answers += 1,
                        Err(failure) => {
                            failures.push(failure);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    count += 1;
                }
                (answers, failures)
            })
        };
        let threads = (0..threads).map(work).collect();
        Self { stop, threads }
    }

    fn stop(self) -> (u64, Vec<Failure>) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| thread.join().unwrap());
        ended.fold((0, Vec::new()), |mut all, one| {
            all.1.extend(one.1);
            (all.0 + one.0, all.1)
        })
    }
}
