//! The store client against real servers, with a counter script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod authentication;
mod batching;
mod cancellation;
mod cluster;
mod deadline;
mod errors;
mod heartbeat;
mod outage;
mod sentinel;
mod shutdown;

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::{Value, from_redis_value};
use sluicegate_testkit::servers::RedisServer;

use super::{Batch, PendingReply, StoreClient};
use crate::error::{CallError, StoreError};
use crate::health::StoreState;
use crate::invocation::{Invocation, Script};
use crate::options::{StoreOptions, Topology};
use crate::slot::slot_of;

/// Long enough to be met on a busy machine.
const LONG_DEADLINE: Duration = Duration::from_secs(5);
/// Upper bound for any wait; only a guard against hanging.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

impl<B: Batch> PendingReply<B> {
    /// Blocks this thread until the reply arrives.
    fn wait(self) -> Result<B::Reply, CallError> {
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
                Poll::Ready(reply) => return reply,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Increments counters and returns their values.
pub(super) struct CounterBatch;

#[derive(Clone, Debug)]
pub(super) struct AddItem {
    key: String,
    amount: i64,
}

static COUNT: LazyLock<Script> = LazyLock::new(|| {
    let source = "local sums = {}\n\
                  for index, key in ipairs(KEYS) do\n\
                    sums[index] = redis.call('INCRBY', key, ARGV[index])\n\
                    redis.call('PEXPIRE', key, 60000)\n\
                  end\n\
                  return sums";
    Script::new(source)
});

fn counter_invocation(adds: impl Iterator<Item = (String, i64)>) -> Invocation {
    let (keys, arguments) = adds.map(|(key, amount)| (Bytes::from(key), Bytes::from(amount.to_string()))).unzip();
    Invocation { script: &COUNT, keys, arguments }
}

impl Batch for CounterBatch {
    type Item = AddItem;
    type Reply = i64;

    fn slot(&self, item: &AddItem) -> u16 {
        slot_of(item.key.as_bytes())
    }

    fn encode(&self, items: &[AddItem]) -> Invocation {
        counter_invocation(items.iter().map(|add| (add.key.clone(), add.amount)))
    }

    fn decode(&self, reply: Value, _: &[AddItem]) -> Result<Vec<i64>, StoreError> {
        from_redis_value(reply).map_err(|error| StoreError::invalid_reply(error.to_string()))
    }

    fn undo(&self, undelivered: &[(AddItem, i64)]) -> Option<Invocation> {
        Some(counter_invocation(undelivered.iter().map(|(add, _)| (add.key.clone(), -add.amount))))
    }
}

fn add(key: &str, amount: i64) -> AddItem {
    AddItem { key: key.to_owned(), amount }
}

fn single(address: impl Into<String>) -> StoreOptions {
    StoreOptions::new(Topology::Single, [address.into()])
}

fn start(options: &StoreOptions) -> StoreClient<CounterBatch> {
    StoreClient::start(options, CounterBatch, vec![&COUNT]).unwrap()
}

/// A connected client with this deadline.
fn connected(mut options: StoreOptions, deadline: Duration) -> StoreClient<CounterBatch> {
    options.deadline = deadline;
    let client = start(&options);
    until("connected", || client.health().state == StoreState::Connected);
    client
}

fn until(label: &str, mut is: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < TEST_TIMEOUT, "not {label}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

/// Submits items one after the other until one succeeds. Returns the time it took and the reply.
fn until_reply(client: &StoreClient<CounterBatch>, key: &str) -> (Duration, i64) {
    let mut reply = None;
    let elapsed = until("answered", || {
        reply = client.submit(add(key, 1)).wait().ok();
        reply.is_some()
    });
    (elapsed, reply.unwrap())
}

fn stored(server: &RedisServer, key: &str) -> i64 {
    server.command(&["GET", key]).unwrap().parse().unwrap_or(0)
}

/// Submits items from many threads until stopped. Returns the number of replies, and the failures.
struct LoadThreads {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    threads: Vec<std::thread::JoinHandle<(u64, Vec<CallError>)>>,
}

impl LoadThreads {
    fn start(
        client: &StoreClient<CounterBatch>,
        threads: usize,
        key: impl Fn(u64) -> String + Clone + Send + 'static,
    ) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let work = |index: usize| {
            let (client, stop, key) = (client.clone(), stop.clone(), key.clone());
            std::thread::spawn(move || {
                let (mut replies, mut failures) = (0, Vec::new());
                let mut count = index as u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    match client.submit(add(&key(count), 1)).wait() {
                        Ok(_) => replies += 1,
                        Err(failure) => {
                            failures.push(failure);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    count += 1;
                }
                (replies, failures)
            })
        };
        let threads = (0..threads).map(work).collect();
        Self { stop, threads }
    }

    fn stop(self) -> (u64, Vec<CallError>) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| thread.join().unwrap());
        ended.fold((0, Vec::new()), |mut all, one| {
            all.1.extend(one.1);
            (all.0 + one.0, all.1)
        })
    }
}
