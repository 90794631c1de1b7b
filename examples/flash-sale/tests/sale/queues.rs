//! The queued sale on every queue, and orphaned reservations.

use std::time::{Duration, Instant};

use sluicegate::clock::Clock;
use sluicegate_flash_sale::cache::{ReserveResult, StockCache};
use sluicegate_flash_sale::drive::{Scenario, Target};
use sluicegate_flash_sale::queue::{OrderQueue, QueueError};
use sluicegate_flash_sale::shop::Step;
use sluicegate_flash_sale::{OrderState, Purchase};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::{RabbitMq, RedisServer};
use tokio::task::JoinSet;

use crate::orders::FrozenShop;
use crate::support::{TempDir, app_settings, open_app, run_until_sold_out};

async fn run_queued_sale(cache: &str, queue: &str) {
    let dir = TempDir::new();
    let mut shop = dir.shop();
    (shop.cache, shop.queue) = (cache.to_owned(), queue.to_owned());
    let app = open_app(app_settings(shop)).await;
    let target = Target::default().with_process(app.addresses());
    for _ in 0..2 {
        let report = run_until_sold_out(&target, Scenario::Shop(Step::Queue)).await.pop().unwrap();
        assert_eq!(report.totals.stock_updates, 10, "{report:?}");
    }
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_sale_runs_on_rabbitmq() {
    let rabbit = RabbitMq::start().unwrap();
    run_queued_sale("memory", &rabbit.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queued_sale_runs_on_a_redis_stream() {
    let redis = RedisServer::start().unwrap();
    run_queued_sale(&redis.url(), &redis.url()).await;
}

/// The broker accepts connections but does not respond: all waiting publishers time out at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_broker_times_out_all_publishers_together() {
    let rabbit = RabbitMq::start().unwrap();
    let port = rabbit.url().rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).unwrap();
    let proxy = FaultProxy::start(port).unwrap();
    let url = rabbit.url().replace(&port.to_string(), &proxy.port().to_string());
    let queue = OrderQueue::open(&url, Duration::ZERO).await.unwrap();
    proxy.blackhole();
    let started = Instant::now();
    let mut puts = JoinSet::new();
    for index in 0..4 {
        let (queue, purchase) = (queue.clone(), Purchase::new(format!("buyer-{index}"), "k").unwrap());
        puts.spawn(async move { queue.put(&purchase).await });
    }
    assert!(puts.join_all().await.iter().all(|put| matches!(put, Err(QueueError::TimedOut(_)))));
    // The timeout is five seconds. Four sequential timeouts would take more than twenty.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

/// A process reserved an item and was killed before it queued the order.
#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_without_an_order_expires() {
    let redis = RedisServer::start().unwrap();
    let frozen = FrozenShop::open(1, |settings| {
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let frozen = frozen.await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    let now = i64::try_from(frozen.clock.now().to_unix().as_millis()).unwrap();
    let ghost = Purchase::new("ghost", "k").unwrap();
    assert_eq!(killed.reserve(&ghost, now, false).await.unwrap(), ReserveResult::New);
    assert!(frozen.buy(Step::Queue, "alice", "k").await.is_err(), "reserved");
    frozen.shop.sweep().await.unwrap();
    assert!(frozen.buy(Step::Queue, "alice", "k").await.is_err(), "still reserved");

    frozen.clock.advance(Duration::from_secs(3_600));
    frozen.shop.sweep().await.unwrap();
    assert_eq!(frozen.shop.order("ghost.k").await.unwrap().state, OrderState::Expired);
    assert_eq!(frozen.buy(Step::Queue, "alice", "k").await.unwrap().state, OrderState::Unpaid);
}

/// The same, but the buyer retries in time and the order is queued.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_finds_its_reservation() {
    let redis = RedisServer::start().unwrap();
    let frozen = FrozenShop::open(1, |settings| settings.cache = redis.url()).await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    let ghost = Purchase::new("ghost", "k").unwrap();
    assert_eq!(killed.reserve(&ghost, i64::MAX, false).await.unwrap(), ReserveResult::New);
    assert_eq!(frozen.buy(Step::Queue, "ghost", "k").await.unwrap().state, OrderState::Unpaid);
}

/// Invalid messages are discarded, and later orders are delivered.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_does_not_block_the_queue() {
    let redis = RedisServer::start().unwrap();
    for nonsense in ["", "{", r#"{"buyer":"a.b","key":"k"}"#] {
        redis.command(&["XADD", "flash-sale:{1}:queue", "*", "purchase", nonsense]).unwrap();
    }
    redis.command(&["XADD", "flash-sale:{1}:queue", "*", "other", "field"]).unwrap();
    let frozen = FrozenShop::open(1, |settings| {
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let frozen = frozen.await;
    assert_eq!(frozen.buy(Step::Queue, "alice", "k").await.unwrap().state, OrderState::Unpaid);
    let left = async {
        while redis.command(&["XLEN", "flash-sale:{1}:queue"]).unwrap() != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), left).await.expect("invalid messages are discarded");
}
