//! The queued sale on every queue, and reservations that come to nothing.

use std::time::{Duration, Instant};

use sluicegate::clock::Clock;
use sluicegate_flash_sale::cache::{Reserved, StockCache};
use sluicegate_flash_sale::drive::{Scene, Target};
use sluicegate_flash_sale::queue::{OrderQueue, QueueError};
use sluicegate_flash_sale::shop::Step;
use sluicegate_flash_sale::{Purchase, State};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::{RabbitMq, RedisServer};
use tokio::task::JoinSet;

use crate::orders::Still;
use crate::support::{Folder, house, open, sold_out};

async fn the_queued_sale(cache: &str, queue: &str) {
    let folder = Folder::new();
    let mut shop = folder.shop();
    (shop.cache, shop.queue) = (cache.to_owned(), queue.to_owned());
    let house = open(house(shop)).await;
    let target = Target::default().and(house.addresses());
    for _ in 0..2 {
        let tally = sold_out(&target, Scene::Shop(Step::Queue)).await.pop().unwrap();
        assert_eq!(tally.books.stock_updates, 10, "{tally:?}");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_rabbitmq() {
    let rabbit = RabbitMq::start().unwrap();
    the_queued_sale("memory", &rabbit.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_stream_of_redis() {
    let redis = RedisServer::start().unwrap();
    the_queued_sale(&redis.url(), &redis.url()).await;
}

/// The broker takes connections and answers nothing: whoever stands in line is told so as early as the first.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_broker_hangs_nobody_waits_for_those_before() {
    let rabbit = RabbitMq::start().unwrap();
    let port = rabbit.url().rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).unwrap();
    let proxy = FaultProxy::start(port).unwrap();
    let url = rabbit.url().replace(&port.to_string(), &proxy.port().to_string());
    let queue = OrderQueue::open(&url, Duration::ZERO).await.unwrap();
    proxy.swallow();
    let begun = Instant::now();
    let mut puts = JoinSet::new();
    for nth in 0..4 {
        let (queue, purchase) = (queue.clone(), Purchase::new(format!("buyer-{nth}"), "k").unwrap());
        puts.spawn(async move { queue.put(&purchase).await });
    }
    assert!(puts.join_all().await.iter().all(|put| matches!(put, Err(QueueError::TimedOut(_)))));
    // One is given up after five seconds. Four in turn would take twenty and more.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// A process reserved an item and was killed before it could queue the order.
#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_without_an_order_comes_back() {
    let redis = RedisServer::start().unwrap();
    let still = Still::open(1, |settings| {
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let still = still.await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    let now = i64::try_from(still.clock.now().to_unix().as_millis()).unwrap();
    let ghost = Purchase::new("ghost", "k").unwrap();
    assert_eq!(killed.reserve(&ghost, now, false).await.unwrap(), Reserved::Taken);
    assert!(still.buy(Step::Queue, "alice", "k").await.is_err(), "reserved");
    still.shop.sweep().await.unwrap();
    assert!(still.buy(Step::Queue, "alice", "k").await.is_err(), "still reserved");

    still.clock.advance(Duration::from_secs(3_600));
    still.shop.sweep().await.unwrap();
    assert_eq!(still.shop.order("ghost.k").await.unwrap().state, State::Expired);
    assert_eq!(still.buy(Step::Queue, "alice", "k").await.unwrap().state, State::Unpaid);
}

/// The same, but the buyer tries again in time: then the order is queued after all.
#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_found_again_by_its_buyer() {
    let redis = RedisServer::start().unwrap();
    let still = Still::open(1, |settings| settings.cache = redis.url()).await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    let ghost = Purchase::new("ghost", "k").unwrap();
    assert_eq!(killed.reserve(&ghost, i64::MAX, false).await.unwrap(), Reserved::Taken);
    assert_eq!(still.buy(Step::Queue, "ghost", "k").await.unwrap().state, State::Unpaid);
}

/// Whatever else is in the queue is put away, and orders behind it come through.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_the_queue_holds_up_nobody() {
    let redis = RedisServer::start().unwrap();
    for nonsense in ["", "{", r#"{"buyer":"a.b","key":"k"}"#] {
        redis.command(&["XADD", "flash-sale:{1}:queue", "*", "purchase", nonsense]).unwrap();
    }
    redis.command(&["XADD", "flash-sale:{1}:queue", "*", "other", "field"]).unwrap();
    let still = Still::open(1, |settings| {
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let still = still.await;
    assert_eq!(still.buy(Step::Queue, "alice", "k").await.unwrap().state, State::Unpaid);
    let left = async {
        while redis.command(&["XLEN", "flash-sale:{1}:queue"]).unwrap() != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), left).await.expect("put away");
}
