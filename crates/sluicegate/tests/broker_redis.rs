//! A consumer of a Redis stream that is held to a limit: it gets what its rate allows, acknowledges what it
//! handled, and what it did not finish is claimed by another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

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
use sluicegate::stream::StreamLimits;
use sluicegate::{Limit, Limiter, Rate};
use sluicegate_testkit::servers::RedisServer;
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

const STREAM: &str = "jobs";
const GROUP: &str = "workers";
/// How many entries are read at once.
const READ: usize = 20;
/// Only a guard against hanging.
const GUARD: Duration = Duration::from_secs(120);

/// A connection that may be kept waiting as long as a blocking read takes.
async fn connect(redis: &RedisServer) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(GUARD));
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

/// A consumer that reads entries some at a time. It has a connection to itself: a blocking read keeps
/// everybody else on it waiting.
struct Reader {
    connection: MultiplexedConnection,
    options: StreamReadOptions,
    got: VecDeque<StreamId>,
}

/// The next new entry, as soon as there is one.
async fn read(mut reader: Reader) -> Option<(StreamId, Reader)> {
    while reader.got.is_empty() {
        let reply = reader.connection.xread_options(&[STREAM], &[">"], &reader.options).await;
        let reply: Option<StreamReadReply> = reply.ok()?;
        reader.got.extend(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids));
    }
    reader.got.pop_front().map(|entry| (entry, reader))
}

async fn entries(redis: &RedisServer, consumer: &str) -> BoxStream<'static, StreamId> {
    let options = StreamReadOptions::default().group(GROUP, consumer).count(READ).block(1_000);
    let reader = Reader { connection: connect(redis).await, options, got: VecDeque::new() };
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
    tokio::time::timeout(GUARD, stream.next()).await.expect("delivered in time").unwrap()
}

/// How many entries were delivered and not acknowledged.
async fn pending(connection: &mut MultiplexedConnection) -> usize {
    let pending: redis::streams::StreamPendingReply = connection.xpending(STREAM, GROUP).await.unwrap();
    pending.count()
}

#[test]
fn what_a_killed_consumer_did_not_finish_is_claimed_by_the_next_and_nothing_is_lost() {
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
        let mut paced = entries(&redis, "first").await.paced(&limiter);
        for _ in 0..5 {
            for _ in 0..10 {
                let entry = next(&mut paced).await;
                acknowledge(&mut connection, &entry).await;
                finished.insert(job(&entry));
            }
            // The eleventh has come, stands in line, and stays there however often it is asked for.
            tokio::time::timeout(GUARD, async {
                while limiter.waiting() == 0 {
                    assert!(paced.next().now_or_never().is_none(), "more than the rate allows");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await
            .expect("the eleventh comes");
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
        let mut rest = all.paced(Limiter::new("1000000/s".parse().unwrap()));
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
async fn never_more_than_so_many_are_being_handled() {
    let redis = RedisServer::start().unwrap();
    publish(&redis, 100).await;
    let connection = connect(&redis).await;
    let (now, most, handled) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let four = Barrier::new(4);
    let limited = entries(&redis, "only").await.limit_in_flight(4).unwrap();
    let all = limited.take(100).for_each_concurrent(None, async |entry| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        four.wait().await; // there are four, and with the counter no more than four
        let mut connection = connection.clone();
        acknowledge(&mut connection, &entry).await;
        handled.lock().unwrap().insert(job(&entry));
        now.fetch_sub(1, Ordering::SeqCst);
    });
    tokio::time::timeout(GUARD, all).await.expect("handled in time");
    assert_eq!(handled.into_inner().unwrap(), (0..100).collect());
    assert_eq!(most.into_inner(), 4);
    assert_eq!(pending(&mut connect(&redis).await).await, 0);
}
