//! What goes on, told every second to whoever listens.
//!
//! There is one tick for all: it is made once a second while somebody listens, and never otherwise. Whoever reads too
//! slowly misses ticks and costs nobody anything; whoever does not read at all is seen off by the door.

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

use crate::http::{Strained, state_name, strained, used_of};
use crate::moment::Moment;
use crate::sources::Sources;

/// How many may listen at once.
pub(crate) const MOST_LISTENERS: usize = 64;

/// How often a tick is told.
const EVERY: Duration = Duration::from_secs(1);

/// Tells what goes on.
#[derive(Debug)]
pub(crate) struct Live {
    told: watch::Sender<Told>,
    places: Arc<Semaphore>,
    came: Notify,
}

/// What was told last.
#[derive(Clone, Debug)]
enum Told {
    /// Nothing that is still true.
    Nothing,
    Tick(Bytes),
    /// There is no more to come.
    End,
}

#[derive(Serialize)]
struct Tick {
    at: Moment,
    at_ms: u64,
    rules: Vec<Rule>,
    lists: Lists,
    bans: usize,
    edition: u64,
    last_error: Option<String>,
    store: Option<&'static str>,
    nodes: Option<u32>,
    gateway: Option<Gateway>,
    /// The states of adaptive rules.
    adaptive: Vec<Strained>,
}

#[derive(Serialize)]
struct Rule {
    name: String,
    admitted: u64,
    refused: u64,
    banned: u64,
    degraded: u64,
    waited: u64,
    bytes: u64,
    waiting: usize,
    permits: Option<u64>,
    used: Option<f64>,
}

#[derive(Serialize)]
struct Lists {
    allow: u64,
    deny: u64,
}

#[derive(Serialize)]
struct Gateway {
    connections: u64,
    in_flight: u64,
    requests: u64,
}

impl Live {
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(MOST_LISTENERS));
        Self { told: watch::Sender::new(Told::Nothing), places, came: Notify::new() }
    }

    /// Lets somebody listen; `None`: too many do.
    pub(crate) fn listen(&self) -> Option<UnsyncBoxBody<Bytes, Infallible>> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut hearing = self.told.subscribe();
        // What was told last second is news to who has just come.
        hearing.mark_changed();
        self.came.notify_one();
        let events = stream::unfold((hearing, place), next);
        Some(StreamBody::new(events).boxed_unsync())
    }

    /// Tells of these sources, for ever.
    pub(crate) async fn tell(&self, sources: &Sources) {
        let clock = sources.sluice.clock();
        loop {
            self.came.notified().await;
            while self.told.receiver_count() > 0 {
                let tick = event(&Tick::of(sources));
                self.told.send_if_modified(|told| {
                    let goes_on = !matches!(told, Told::End);
                    if goes_on {
                        *told = Told::Tick(tick);
                    }
                    goes_on
                });
                clock.sleep(EVERY).await;
            }
            self.told.send_if_modified(|told| {
                if !matches!(told, Told::End) {
                    *told = Told::Nothing;
                }
                false
            });
        }
    }

    /// Ends what is being told.
    pub(crate) fn end(&self) {
        self.told.send_replace(Told::End);
    }
}

type Hearing = (watch::Receiver<Told>, OwnedSemaphorePermit);

/// The next piece of the body, and where to go on from.
async fn next((mut hearing, place): Hearing) -> Option<(Result<Frame<Bytes>, Infallible>, Hearing)> {
    loop {
        hearing.changed().await.ok()?;
        let told = hearing.borrow_and_update().clone();
        match told {
            Told::Nothing => {}
            Told::Tick(tick) => return Some((Ok(Frame::data(tick)), (hearing, place))),
            Told::End => return None,
        }
    }
}

/// A tick as an event of a stream.
fn event(tick: &Tick) -> Bytes {
    let mut event = b"event: tick\ndata: ".to_vec();
    // JSON has no line ends in it unless it is asked to, and a tick has nothing that JSON could not say.
    let _ = serde_json::to_writer(&mut event, tick);
    event.extend_from_slice(b"\n\n");
    event.into()
}

impl Tick {
    fn of(sources: &Sources) -> Self {
        let sluice = &sources.sluice;
        let at = Moment::from_unix(sluice.clock().now().to_unix());
        let lists = sluice.list_counts();
        let health = store_of(sluice).map(|store| store.health());
        let gateway = sources.gateway.as_ref().map(|read| {
            let reading = read();
            let requests = reading.requests();
            Gateway { connections: reading.connections.open, in_flight: reading.in_flight, requests }
        });
        Self {
            at,
            at_ms: at.millis(),
            rules: sluice.counts().into_iter().map(Rule::from).collect(),
            lists: Lists { allow: lists.allowed, deny: lists.denied },
            bans: sluice.bans().len(),
            edition: sluice.edition(),
            last_error: sources.keeper.status().trouble.map(|trouble| trouble.message),
            store: health.as_ref().map(|health| state_name(health.state)),
            nodes: health.and_then(|health| health.live_nodes),
            gateway,
            adaptive: strained(sluice),
        }
    }
}

impl From<RuleCounts> for Rule {
    fn from(counts: RuleCounts) -> Self {
        let used = used_of(&counts);
        let RuleCounts { rule, admitted, refused, banned, degraded, waited, bytes, waiting, permits, .. } = counts;
        Self { name: rule, admitted, refused, banned, degraded, waited, bytes, waiting, permits, used }
    }
}
