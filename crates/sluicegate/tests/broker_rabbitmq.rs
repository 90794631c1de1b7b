//! A rate-limited RabbitMQ consumer: it receives items at its rate and acknowledges them; unfinished items go to another
//! consumer.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use sluicegate::clock::ManualClock;
use sluicegate::stream::StreamRateLimitExt;
use sluicegate::{Limit, Limiter, Rate};
use sluicegate_testkit::servers::RabbitMq;
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

const QUEUE: &str = "jobs";
const PREFETCH: u16 = 20;
/// Only a guard against hanging.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

async fn connect(rabbit: &RabbitMq) -> (Connection, Channel) {
    let connection = Connection::connect(&rabbit.url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

async fn publish(rabbit: &RabbitMq, jobs: u32) {
    let (connection, channel) = connect(rabbit).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::default(), FieldTable::default()).await.unwrap();
    for job in 0..jobs {
        let options = BasicPublishOptions::default();
        let payload = job.to_be_bytes();
        let sent = channel.basic_publish("".into(), QUEUE.into(), options, &payload, BasicProperties::default());
        sent.await.unwrap().await.unwrap();
    }
    connection.close(200, "done".into()).await.unwrap();
}

async fn consume(channel: &Channel) -> Consumer {
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.unwrap();
    let options = BasicConsumeOptions::default();
    channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await.unwrap()
}

/// Number of jobs in the queue. The broker replies after it has processed everything sent before on this channel.
async fn queue_length(channel: &Channel) -> u32 {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(QUEUE.into(), passive, FieldTable::default()).await.unwrap().message_count()
}

fn job(delivery: &Delivery) -> u32 {
    u32::from_be_bytes(delivery.data[..].try_into().unwrap())
}

async fn next(stream: &mut (impl StreamExt<Item = lapin::Result<Delivery>> + Unpin)) -> Delivery {
    tokio::time::timeout(TEST_TIMEOUT, stream.next()).await.expect("delivered in time").unwrap().unwrap()
}

#[test]
fn unacknowledged_jobs_of_a_killed_consumer_are_redelivered() {
    let rabbit = RabbitMq::start().unwrap();
    let driver = Runtime::new().unwrap();
    driver.block_on(publish(&rabbit, 200));

    let clock = ManualClock::new();
    let ten_a_second = Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap();
    let limiter = Limiter::builder().limit(ten_a_second).clock(clock.clone()).build().unwrap();
    let (mut finished, mut unfinished) = (BTreeSet::new(), BTreeSet::new());

    // All of the first consumer lives in this runtime, its connection too.
    let first = Runtime::new().unwrap();
    first.block_on(async {
        let (_connection, channel) = connect(&rabbit).await;
        let mut paced = consume(&channel).await.rate_limit(&limiter);
        for _ in 0..5 {
            for _ in 0..10 {
                let delivery = next(&mut paced).await;
                assert!(!delivery.redelivered);
                delivery.ack(BasicAckOptions::default()).await.unwrap();
                finished.insert(job(&delivery));
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
        queue_length(&channel).await;
    });
    assert_eq!((finished.len(), unfinished.len()), (50, 3));
    first.shutdown_background(); // no farewell to the broker

    let mut again = BTreeSet::new();
    driver.block_on(async {
        let (connection, channel) = connect(&rabbit).await;
        let mut rest = consume(&channel).await.rate_limit(Limiter::new("1000000/s".parse().unwrap()));
        while finished.len() < 200 {
            let delivery = next(&mut rest).await;
            assert!(finished.insert(job(&delivery)), "{} was acknowledged before", job(&delivery));
            if delivery.redelivered {
                again.insert(job(&delivery));
            }
            delivery.ack(BasicAckOptions::default()).await.unwrap();
        }
        assert_eq!(queue_length(&channel).await, 0);
        connection.close(200, "done".into()).await.unwrap();
    });
    assert_eq!(finished, (0..200).collect());
    assert!(again.is_superset(&unfinished), "{again:?} lacks some of {unfinished:?}");
    assert!(again.len() <= usize::from(PREFETCH), "only what the first had been given: {again:?}");
}

#[test]
fn in_flight_limit_is_never_exceeded() {
    let rabbit = RabbitMq::start().unwrap();
    let driver = Runtime::new().unwrap();
    driver.block_on(async {
        publish(&rabbit, 100).await;
        let (connection, channel) = connect(&rabbit).await;
        let (now, max, handled) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
        let four = Barrier::new(4);
        let limited = consume(&channel).await.limit_in_flight(4).unwrap();
        let all = limited.take(100).for_each_concurrent(None, async |delivery| {
            max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (delivery, permit) = delivery.into_parts();
            let delivery = delivery.unwrap();
            four.wait().await; // there are four, and with the counter no more than four
            delivery.ack(BasicAckOptions::default()).await.unwrap();
            handled.lock().unwrap().insert(job(&delivery));
            now.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
        });
        tokio::time::timeout(TEST_TIMEOUT, all).await.expect("handled in time");
        assert_eq!(handled.into_inner().unwrap(), (0..100).collect());
        assert_eq!(max.into_inner(), 4);
        assert_eq!(queue_length(&channel).await, 0);
        connection.close(200, "done".into()).await.unwrap();
    });
}
