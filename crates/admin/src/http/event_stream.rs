//! Server-sent event stream with one tick per second (`GET /v1/live`).
//!
//! One tick is created per second for all listeners, and only while there are any. A slow listener misses ticks
//! and costs nothing; one that does not read at all is disconnected by the write timeout.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use serde::Serialize;
use sluicegate::cluster::store_of;
use sluicegate_engine::sluice::RuleCounts;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use utoipa::ToSchema;

use super::adaptive::{self, AdaptiveRuleSummary};
use super::rules::used_ratio;
use super::store::StateName;
use crate::providers::Providers;
use crate::rfc3339::Rfc3339Time;

/// Maximum number of listeners.
pub(crate) const MAX_LISTENERS: usize = 64;

/// Interval of ticks.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// The event stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    state: watch::Sender<StreamState>,
    listener_slots: Arc<Semaphore>,
    listener_joined: Notify,
}

/// State of the stream.
#[derive(Clone, Debug)]
enum StreamState {
    /// No current tick.
    Idle,
    Tick(Bytes),
    /// The stream has ended.
    Closed,
}

/// Data of one event of the stream.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tick {
    at: Rfc3339Time,
    at_ms: u64,
    rules: Vec<RuleTick>,
    lists: ListsTick,
    bans: usize,
    generation: u64,
    last_error: Option<String>,
    store: Option<StateName>,
    nodes: Option<u32>,
    gateway: Option<GatewayTick>,
    /// Adaptive rules.
    adaptive: Vec<AdaptiveRuleSummary>,
}

/// Counters of a rule.
#[derive(Serialize, ToSchema)]
struct RuleTick {
    name: String,
    admitted: u64,
    refused: u64,
    banned: u64,
    degraded: u64,
    waited: u64,
    bytes: u64,
    waiting: usize,
    permits: Option<u64>,
    /// Used share of the tightest limit; null for rules with a key.
    #[schema(minimum = 0, maximum = 1)]
    used: Option<f64>,
}

/// Requests that matched a list.
#[derive(Serialize, ToSchema)]
struct ListsTick {
    allow: u64,
    deny: u64,
}

/// Connections and requests of the gateway.
#[derive(Serialize, ToSchema)]
struct GatewayTick {
    connections: u64,
    in_flight: u64,
    requests: u64,
}

impl EventStream {
    pub(crate) fn new() -> Self {
        let listener_slots = Arc::new(Semaphore::new(MAX_LISTENERS));
        Self { state: watch::Sender::new(StreamState::Idle), listener_slots, listener_joined: Notify::new() }
    }

    /// Subscribes a listener; `None` if there are too many.
    pub(crate) fn subscribe(&self) -> Option<UnsyncBoxBody<Bytes, Infallible>> {
        let slot = Arc::clone(&self.listener_slots).try_acquire_owned().ok()?;
        let mut receiver = self.state.subscribe();
        // A new listener gets the last tick at once.
        receiver.mark_changed();
        self.listener_joined.notify_one();
        let events = stream::unfold((receiver, slot), next_event);
        Some(StreamBody::new(events).boxed_unsync())
    }

    /// Creates ticks from these providers, forever.
    pub(crate) async fn run(&self, sources: &Providers) {
        let clock = sources.sluice.clock();
        loop {
            self.listener_joined.notified().await;
            while self.state.receiver_count() > 0 {
                let tick = encode_event(&Tick::of(sources));
                self.state.send_if_modified(|state| {
                    let is_open = !matches!(state, StreamState::Closed);
                    if is_open {
                        *state = StreamState::Tick(tick);
                    }
                    is_open
                });
                clock.sleep(TICK_INTERVAL).await;
            }
            self.state.send_if_modified(|state| {
                if !matches!(state, StreamState::Closed) {
                    *state = StreamState::Idle;
                }
                false
            });
        }
    }

    /// Ends the stream for all listeners.
    pub(crate) fn close(&self) {
        self.state.send_replace(StreamState::Closed);
    }
}

type Subscription = (watch::Receiver<StreamState>, OwnedSemaphorePermit);

/// Returns the next chunk of the body and the remaining subscription.
async fn next_event((mut receiver, slot): Subscription) -> Option<(Result<Frame<Bytes>, Infallible>, Subscription)> {
    loop {
        receiver.changed().await.ok()?;
        let state = receiver.borrow_and_update().clone();
        match state {
            StreamState::Idle => {}
            StreamState::Tick(tick) => return Some((Ok(Frame::data(tick)), (receiver, slot))),
            StreamState::Closed => return None,
        }
    }
}

/// Encodes a tick as a server-sent event.
fn encode_event(tick: &Tick) -> Bytes {
    let mut event = b"event: tick\ndata: ".to_vec();
    // Compact JSON contains no line breaks, and a tick is always representable.
    let _ = serde_json::to_writer(&mut event, tick);
    event.extend_from_slice(b"\n\n");
    event.into()
}

impl Tick {
    fn of(sources: &Providers) -> Self {
        let sluice = &sources.sluice;
        let at = Rfc3339Time::from_unix(sluice.clock().now().to_unix());
        let lists = sluice.list_counts();
        let health = store_of(sluice).map(|store| store.health());
        let gateway = sources.gateway.as_ref().map(|read| {
            let reading = read();
            let requests = reading.requests();
            GatewayTick { connections: reading.connections.open, in_flight: reading.in_flight, requests }
        });
        Self {
            at,
            at_ms: at.millis(),
            rules: sluice.counts().into_iter().map(RuleTick::from).collect(),
            lists: ListsTick { allow: lists.allowed, deny: lists.denied },
            bans: sluice.bans().len(),
            generation: sluice.generation(),
            last_error: sources.rule_manager.status().last_error.map(|error| error.message),
            store: health.as_ref().map(|health| health.state.into()),
            nodes: health.and_then(|health| health.live_nodes),
            gateway,
            adaptive: adaptive::summaries(sluice),
        }
    }
}

impl From<RuleCounts> for RuleTick {
    fn from(counts: RuleCounts) -> Self {
        let used = used_ratio(&counts);
        let RuleCounts { rule, admitted, refused, banned, degraded, waited, bytes, waiting, permits, .. } = counts;
        Self { name: rule, admitted, refused, banned, degraded, waited, bytes, waiting, permits, used }
    }
}
