//! Rules that a fleet counts together: the answer waits for the store, and the order stays.

use std::sync::Arc;

use parking_lot::Mutex;
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::fleet::{
    Answer, Asked, FleetLimits, FleetMark, FleetSaid, FleetStore, Granted, StoreLost, Wants,
};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{LimitError, Sluice, Timestamp};
use smallvec::smallvec;
use tokio::sync::oneshot;

use super::{Server, bucket};

/// A store that answers when the test says so.
#[derive(Debug, Default)]
struct SlowStore {
    asked: Mutex<Vec<oneshot::Sender<Answer>>>,
}

#[derive(Debug)]
struct SlowLimits;

impl FleetLimits for SlowLimits {
    fn at_once(&self, _: u64, _: u64, _: Timestamp) -> Option<(FleetSaid, FleetMark)> {
        None
    }

    fn settle(&self, _: u64, _: u64, _: u64, _: FleetMark) {}
}

impl FleetStore for SlowStore {
    fn open(&self, _: &Rule, _: u64) -> Result<Arc<dyn FleetLimits>, LimitError> {
        Ok(Arc::new(SlowLimits))
    }

    fn ask(&self, _: Wants) -> Asked {
        let (answer, answered) = oneshot::channel();
        self.asked.lock().push(answer);
        Asked::Later(Box::pin(async move { answered.await.unwrap_or(Err(StoreLost)) }))
    }

    fn nodes(&self) -> u32 {
        1
    }
}

impl SlowStore {
    /// Answers the next question, once it has been asked.
    async fn answer(&self, answer: Answer) {
        loop {
            if let Some(asked) = self.asked.lock().pop() {
                asked.send(answer).unwrap();
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn granted(check: Check, remaining: u64) -> Answer {
    let status = Status { limit: 5, remaining, reset: 1_500_000 };
    Ok(Granted { said: smallvec![FleetSaid { check, limit: 0, status }], taken: None })
}

/// A server with a rule that the store counts.
fn sharing() -> (Server, Arc<SlowStore>) {
    let clock = ManualClock::new();
    let store = Arc::new(SlowStore::default());
    let mut rule = Rule::new("shared", [bucket("5/1s", 5)]);
    rule.scope = Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare };
    let sluice = Sluice::builder().rule(rule).store(Arc::clone(&store) as Arc<dyn FleetStore>).clock(clock.clone());
    let server = Server::of(sluice.build().unwrap(), None, clock);
    (server, store)
}

#[tokio::test]
async fn the_answer_waits_for_the_store_and_so_do_those_behind_it() {
    let (server, store) = sharing();
    let mut client = server.connect();
    client.send("ECHO a\r\nSLUICE.CHECK shared\r\nECHO b\r\nSLUICE.CHECK shared\r\nECHO c\r\nQUIT\r\n").await;
    store.answer(granted(Check::Now, 4)).await;
    store.answer(granted(Check::NotBefore(2_000_001), 0)).await;
    let replies = String::from_utf8(client.rest().await).unwrap();
    assert_eq!(
        replies,
        "$1\r\na\r\n*8\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n\
         $1\r\nb\r\n*8\r\n:0\r\n:5\r\n:0\r\n:3\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n$1\r\nc\r\n+OK\r\n"
    );
}

#[tokio::test]
async fn within_a_transaction_the_order_stays_too() {
    let (server, store) = sharing();
    let mut client = server.connect();
    client.send("MULTI\r\nECHO a\r\nSLUICE.CHECK shared\r\nECHO b\r\nEXEC\r\nECHO c\r\nQUIT\r\n").await;
    store.answer(granted(Check::Now, 4)).await;
    let replies = String::from_utf8(client.rest().await).unwrap();
    assert_eq!(
        replies,
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\na\r\n\
         *8\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n$1\r\nb\r\n$1\r\nc\r\n+OK\r\n"
    );
}

#[tokio::test]
async fn a_lost_store_is_told_of() {
    let (server, store) = sharing();
    let mut client = server.connect();
    client.send("SLUICE.CHECK shared\r\nQUIT\r\n").await;
    store.answer(Err(StoreLost)).await;
    let replies = String::from_utf8(client.rest().await).unwrap();
    assert!(replies.ends_with("$6\r\nshared\r\n:1\r\n+OK\r\n"), "{replies}");
}
