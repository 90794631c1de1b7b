//! Rules counted by a shared store: replies wait for the store and keep their order.

use std::sync::Arc;

use parking_lot::Mutex;
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::store::{
    AcquireCall, LeaseToken, Store, StoreDecision, StoreLimits, StoreOutcome, StoreReply, StoreRequests,
    StoreUnavailable,
};
use sluicegate_engine::{LimitError, Sluice, Timestamp};
use smallvec::smallvec;
use tokio::sync::oneshot;

use super::{RespServer, bucket};

/// A store that replies on the test's command.
#[derive(Debug, Default)]
struct SlowStore {
    pending: Mutex<Vec<oneshot::Sender<StoreReply>>>,
}

#[derive(Debug)]
struct SlowLimits;

impl StoreLimits for SlowLimits {
    fn decide_locally(&self, _: u64, _: u64, _: Timestamp) -> Option<(StoreDecision, LeaseToken)> {
        None
    }

    fn settle(&self, _: u64, _: u64, _: u64, _: LeaseToken) {}
}

impl Store for SlowStore {
    fn open(&self, _: &Rule, _: u64) -> Result<Arc<dyn StoreLimits>, LimitError> {
        Ok(Arc::new(SlowLimits))
    }

    fn acquire(&self, _: StoreRequests) -> AcquireCall {
        let (sender, receiver) = oneshot::channel();
        self.pending.lock().push(sender);
        AcquireCall::Pending(Box::pin(async move { receiver.await.unwrap_or(Err(StoreUnavailable)) }))
    }

    fn nodes(&self) -> u32 {
        1
    }
}

impl SlowStore {
    /// Replies to the next call, once it is made.
    async fn reply(&self, reply: StoreReply) {
        loop {
            if let Some(call) = self.pending.lock().pop() {
                call.send(reply).unwrap();
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn granted(check: Check, remaining: u64) -> StoreReply {
    let status = Status { limit: 5, remaining, reset: 1_500_000 };
    Ok(StoreOutcome { decisions: smallvec![StoreDecision { check, limit: 0, status }], receipt: None })
}

/// A server with a rule counted by the store.
fn server_with_store() -> (RespServer, Arc<SlowStore>) {
    let clock = ManualClock::new();
    let store = Arc::new(SlowStore::default());
    let mut rule = Rule::new("shared", [bucket("5/1s", 5)]);
    rule.scope = Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare };
    let sluice = Sluice::builder().rule(rule).store(Arc::clone(&store) as Arc<dyn Store>).clock(clock.clone());
    let server = RespServer::with_sluice(sluice.build().unwrap(), None, clock);
    (server, store)
}

#[tokio::test]
async fn replies_wait_for_the_store_in_order() {
    let (server, store) = server_with_store();
    let mut client = server.connect();
    client.send("ECHO a\r\nSLUICE.CHECK shared\r\nECHO b\r\nSLUICE.CHECK shared\r\nECHO c\r\nQUIT\r\n").await;
    store.reply(granted(Check::Now, 4)).await;
    store.reply(granted(Check::NotBefore(2_000_001), 0)).await;
    let replies = String::from_utf8(client.read_to_end().await).unwrap();
    assert_eq!(
        replies,
        "$1\r\na\r\n*8\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n\
         $1\r\nb\r\n*8\r\n:0\r\n:5\r\n:0\r\n:3\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n$1\r\nc\r\n+OK\r\n"
    );
}

#[tokio::test]
async fn a_transaction_keeps_the_reply_order() {
    let (server, store) = server_with_store();
    let mut client = server.connect();
    client.send("MULTI\r\nECHO a\r\nSLUICE.CHECK shared\r\nECHO b\r\nEXEC\r\nECHO c\r\nQUIT\r\n").await;
    store.reply(granted(Check::Now, 4)).await;
    let replies = String::from_utf8(client.read_to_end().await).unwrap();
    assert_eq!(
        replies,
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\na\r\n\
         *8\r\n:1\r\n:5\r\n:4\r\n:-1\r\n:2\r\n:0\r\n$6\r\nshared\r\n:0\r\n$1\r\nb\r\n$1\r\nc\r\n+OK\r\n"
    );
}

#[tokio::test]
async fn an_unavailable_store_is_reported() {
    let (server, store) = server_with_store();
    let mut client = server.connect();
    client.send("SLUICE.CHECK shared\r\nQUIT\r\n").await;
    store.reply(Err(StoreUnavailable)).await;
    let replies = String::from_utf8(client.read_to_end().await).unwrap();
    assert!(replies.ends_with("$6\r\nshared\r\n:1\r\n+OK\r\n"), "{replies}");
}
