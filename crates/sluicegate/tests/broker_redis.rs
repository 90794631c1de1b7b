//! A rate-limited consumer of a Redis stream: it receives entries at its rate and acknowledges them; another consumer
//! claims unfinished entries.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};
use sluicegate::clock::ManualClock;
use sluicegate::stream::StreamRateLimitExt;
use sluicegate::{Limit, Limiter, Rate};
use sluicegate_testkit::servers::RedisServer;
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

const STREAM: &str = "jobs";
const GROUP: &str = "workers";
/// How many entries are read at once.
const READ_COUNT: usize = 20;
/// Only a guard against hanging.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection that may be kept waiting as long as a blocking read takes.
async fn connect(redis: &RedisServer) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TEST_TIMEOUT));
    let client = Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

async fn publish(redis: &RedisServer, jobs: u32) {
    let mut connection = connect(redis).await;
    let () = connection.xgroup_create_mkstream(STREAM, GROUP, "0").await.unwrap();
    for job in 0..jobs {
        let _id: String = connection.xadd(STREAM, "*", &[("job", job)]).await.unwrap();
    }
}

/// A consumer that reads entries in batches. It has its own connection, because a blocking read delays all other
/// commands on it.
struct StreamConsumer {
    connection: MultiplexedConnection,
    options: StreamReadOptions,
    got: VecDeque<StreamId>,
}

/// The next new entry, as soon as there is one.
async fn read(mut reader: StreamConsumer) -> Option<(StreamId, StreamConsumer)> {
    while reader.got.is_empty() {
        let reply = reader.connection.xread_options(&[STREAM], &[">"], &reader.options).await;
        let reply: Option<StreamReadReply> = reply.ok()?;
        reader.got.extend(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids));
    }
    reader.got.pop_front().map(|entry| (entry, reader))
}

async fn entries(redis: &RedisServer, consumer: &str) -> BoxStream<'static, StreamId> {
    let options = StreamReadOptions::default().group(GROUP, consumer).count(READ_COUNT).block(1_000);
    let reader = StreamConsumer { connection: connect(redis).await, options, got: VecDeque::new() };
    stream::unfold(reader, read).boxed()
}

async fn acknowledge(connection: &mut MultiplexedConnection, entry: &StreamId) {
    let acknowledged: usize = connection.xack(STREAM, GROUP, &[&entry.id]).await.unwrap();
    assert_eq!(acknowledged, 1, "{} was acknowledged before", entry.id);
}

fn job(entry: &StreamId) -> u32 {
    entry.get("job").unwrap()
}

async fn next(stream: &mut (impl StreamExt<Item = StreamId> + Unpin)) -> StreamId {
    tokio::time::timeout(TEST_TIMEOUT, stream.next()).await.expect("delivered in time").unwrap()
}

/// How many entries were delivered and not acknowledged.
async fn pending(connection: &mut MultiplexedConnection) -> usize {
    let pending: redis::streams::StreamPendingReply = connection.xpending(STREAM, GROUP).await.unwrap();
    pending.count()
}

#[test]
fn pending_entries_of_a_killed_consumer_are_claimed() {
    let redis = RedisServer::start().unwrap();
    let driver = Runtime::new().unwrap();
    driver.block_on(publish(&redis, 200));

    let clock = ManualClock::new();
    let ten_a_second = Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap();
    let limiter = Limiter::builder().limit(ten_a_second).clock(clock.clone()).build().unwrap();
    let (mut finished, mut unfinished) = (BTreeSet::new(), BTreeSet::new());

    // All of the first consumer lives in this runtime, its connections too.
    let first = Runtime::new().unwrap();
    first.block_on(async {
        let mut connection = connect(&redis).await;
        let mut paced = entries(&redis, "first").await.rate_limit(&limiter);
        for _ in 0..5 {
            for _ in 0..10 {
                let entry = next(&mut paced).await;
                acknowledge(&mut connection, &entry).await;
                finished.insert(job(&entry));
            }
            // The eleventh item is received and waits in the queue; polling does not yield it.
            tokio::time::timeout(TEST_TIMEOUT, async {
                while limiter.waiting() == 0 {
                    assert!(paced.next().now_or_never().is_none(), "more than the rate allows");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await
            .expect("the eleventh item arrives");
            assert!(paced.next().now_or_never().is_none());
            clock.advance(Duration::from_secs(1));
        }
        for _ in 0..3 {
            unfinished.insert(job(&next(&mut paced).await));
        }
    });
    assert_eq!((finished.len(), unfinished.len()), (50, 3));
    first.shutdown_background();

    driver.block_on(async {
        let mut connection = connect(&redis).await;
        // Fifty were acknowledged; what else was read in twenties is pending, the three among it.
        assert_eq!(pending(&mut connection).await, 10);
        let options = StreamAutoClaimOptions::default().count(1_000);
        let claimed: StreamAutoClaimReply =
            connection.xautoclaim_options(STREAM, GROUP, "second", 0, "0-0", options).await.unwrap();
        let again: BTreeSet<u32> = claimed.claimed.iter().map(job).collect();
        assert!(again.len() == 10 && again.is_superset(&unfinished), "{again:?} lacks some of {unfinished:?}");
        let all = stream::iter(claimed.claimed).chain(entries(&redis, "second").await);
        let mut rest = all.rate_limit(Limiter::new("1000000/s".parse().unwrap()));
        while finished.len() < 200 {
            let entry = next(&mut rest).await;
            assert!(finished.insert(job(&entry)), "{} was acknowledged before", job(&entry));
            acknowledge(&mut connection, &entry).await;
        }
        assert_eq!(pending(&mut connection).await, 0);
    });
    assert_eq!(finished, (0..200).collect());
}

#[tokio::test]
async fn in_flight_limit_is_never_exceeded() {
    let redis = RedisServer::start().unwrap();
    publish(&redis, 100).await;
    let connection = connect(&redis).await;
    let (now, max, handled) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let four = Barrier::new(4);
    let limited = entries(&redis, "only").await.limit_in_flight(4).unwrap();
    let all = limited.take(100).for_each_concurrent(None, async |entry| {
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        four.wait().await; // there are four, and with the counter no more than four
        let mut connection = connection.clone();
        acknowledge(&mut connection, &entry).await;
        handled.lock().unwrap().insert(job(&entry));
        now.fetch_sub(1, Ordering::SeqCst);
    });
    tokio::time::timeout(TEST_TIMEOUT, all).await.expect("handled in time");
    assert_eq!(handled.into_inner().unwrap(), (0..100).collect());
    assert_eq!(max.into_inner(), 4);
    assert_eq!(pending(&mut connect(&redis).await).await, 0);
}
