//! A process is killed, or a backend is unavailable, between two operations that belong together. Orders in the
//! database are found, ended orders are not confirmed, and no item stays reserved for nothing.
//!
//! The tests simulate a killed process: they call the backends in the same order as the shop, up to the point of the
//! crash.

use std::fs;
use std::time::{Duration, Instant};

use sluicegate::clock::Clock;
use sluicegate_flash_sale::cache::{ReserveResult, StockCache, StockLookup};
use sluicegate_flash_sale::database::{Database, SaleResult};
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::queue::OrderQueue;
use sluicegate_flash_sale::shop::{PurchaseOutcome, Step};
use sluicegate_flash_sale::{Order, OrderState, Purchase};
use sluicegate_testkit::servers::RedisServer;
use sqlx::{Connection, SqliteConnection};
use tokio::io::AsyncWriteExt;

use crate::orders::{FrozenShop, wait_until_settled};
use crate::support::{TempDir, app_settings, open_app};

/// Upper bound of a wait; prevents a hanging test.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than any window.
const LONG: Duration = Duration::from_secs(3_600);

fn purchase(buyer: &str, key: &str) -> Purchase {
    Purchase::new(buyer, key).unwrap()
}

fn now(frozen: &FrozenShop) -> i64 {
    i64::try_from(frozen.clock.now().to_unix().as_millis()).unwrap()
}

async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < TEST_TIMEOUT);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The queue accepts the order after the reservation has expired.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_reservation_is_not_accepted() {
    let (cache, queue) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let frozen =
        FrozenShop::without_consumer(1, |settings| (settings.cache, settings.queue) = (cache.url(), queue.url())).await;
    let observer = StockCache::open(&cache.url()).await.unwrap();
    queue.pause().unwrap();
    let shop = frozen.shop.clone();
    let buying = tokio::spawn(async move { shop.buy(Step::Queue, purchase("alice", "k")).await });
    until(async || observer.is_reserved("alice.k").await.unwrap()).await;
    frozen.clock.advance(LONG);
    frozen.shop.sweep().await.unwrap();
    queue.resume().unwrap();
    let result = buying.await.unwrap();
    assert_eq!(frozen.shop.order("alice.k").await.unwrap().state, OrderState::Expired);
    match result {
        Ok(outcome) => {
            assert_eq!(outcome, PurchaseOutcome::Existing(Order::new(&purchase("alice", "k"), OrderState::Expired)));
        }
        // On a slow machine the queue times out first.
        Err(error) => assert!(matches!(error, SaleError::Queue(_)), "{error}"),
    }
}

/// The queue accepts the order, but the cache fails before the reservation is marked as queued.
#[tokio::test(flavor = "multi_thread")]
async fn an_unconfirmed_reservation_is_not_accepted() {
    let (mut cache, queue) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let frozen =
        FrozenShop::without_consumer(1, |settings| (settings.cache, settings.queue) = (cache.url(), queue.url())).await;
    let observer = StockCache::open(&cache.url()).await.unwrap();
    queue.pause().unwrap();
    let shop = frozen.shop.clone();
    let buying = tokio::spawn(async move { shop.buy(Step::Queue, purchase("alice", "k")).await });
    until(async || observer.is_reserved("alice.k").await.unwrap()).await;
    cache.kill();
    queue.resume().unwrap();
    let result = buying.await.unwrap();
    assert!(matches!(result, Err(SaleError::Cache(_) | SaleError::Queue(_))), "{result:?}");
}

/// The sweeper has read the stale reservations and waits for the database while one of the buyers retries.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_during_a_sweep_gets_a_consistent_result() {
    let redis = RedisServer::start().unwrap();
    let frozen = FrozenShop::without_consumer(2, |settings| settings.cache = redis.url()).await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    for buyer in ["alice", "ghost"] {
        let reserved = killed.reserve(&purchase(buyer, "k"), now(&frozen), false).await.unwrap();
        assert_eq!(reserved, ReserveResult::New);
    }
    frozen.clock.advance(LONG);
    let mut blocker = SqliteConnection::connect(&frozen.settings.database).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    let statements = async || frozen.shop.totals().await.unwrap().statements;
    let before = statements().await;
    let sweeping = tokio::spawn({
        let shop = frozen.shop.clone();
        async move { shop.sweep().await }
    });
    // The sweeper has read the overdue orders and waits to write.
    until(async || statements().await >= before + 2).await;
    let buying = tokio::spawn({
        let shop = frozen.shop.clone();
        async move { shop.buy(Step::Queue, purchase("alice", "k")).await }
    });
    // The order of the two reservations is random. If alice's is the first, her retry waits for the database too.
    until(async || buying.is_finished() || statements().await >= before + 3).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await.unwrap();
    sweeping.await.unwrap().unwrap();
    let outcome = buying.await.unwrap().unwrap();
    let state = frozen.shop.order("alice.k").await.unwrap().state;
    match outcome {
        PurchaseOutcome::Accepted(_) => assert_eq!(state, OrderState::Waiting),
        other => {
            assert_eq!(
                (other, state),
                (PurchaseOutcome::Existing(Order::new(&purchase("alice", "k"), state)), OrderState::Expired)
            );
        }
    }
}

/// Another sweeper cancelled an unpaid order and was killed before it updated the cache.
async fn check_returned_item_is_on_sale(step: Step, cache: &str) {
    let frozen = FrozenShop::open(1, |settings| settings.cache = cache.to_owned()).await;
    frozen.buy(step, "alice", "k").await.unwrap();
    frozen.clock.advance(LONG);
    let killed = Database::open(&frozen.settings.database).await.unwrap();
    assert!(killed.cancel("alice.k", now(&frozen)).await.unwrap());
    assert!(matches!(frozen.buy(step, "bob", "k").await, Err(SaleError::SoldOut)), "{step}: the cache is stale");
    frozen.shop.sweep().await.unwrap();
    assert_eq!(frozen.buy(step, "alice", "other").await.unwrap().state, OrderState::Unpaid, "{step}");
    assert_eq!(frozen.buy(step, "alice", "k").await.unwrap().state, OrderState::Cancelled, "{step}");
    assert!(matches!(frozen.buy(step, "bob", "k").await, Err(SaleError::SoldOut)), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_returned_without_a_cache_update_is_on_sale_in_every_step() {
    let redis = RedisServer::start().unwrap();
    for step in [Step::Cache, Step::Limit, Step::Queue] {
        check_returned_item_is_on_sale(step, "memory").await;
        check_returned_item_is_on_sale(step, &redis.url()).await;
    }
}

/// A process sold the last item and was killed before it responded or updated the cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_without_a_response_finds_the_order() {
    let redis = RedisServer::start().unwrap();
    for (step, first_buyer) in
        [(Step::Cache, "alice"), (Step::Cache, "bob"), (Step::Limit, "bob"), (Step::Queue, "bob")]
    {
        let frozen = FrozenShop::open(1, |settings| settings.cache = redis.url()).await;
        let killed = Database::open(&frozen.settings.database).await.unwrap();
        let alice = purchase("alice", "k");
        let lookup = StockCache::open(&redis.url()).await.unwrap().lookup(&alice, false).await.unwrap();
        let StockLookup::Available(stock) = lookup else { panic!("{lookup:?}") };
        assert!(matches!(killed.sell_unchanged(&alice, stock, i64::MAX).await.unwrap(), SaleResult::Sold(_)));
        if first_buyer == "bob" {
            assert!(
                matches!(frozen.buy(Step::Cache, "bob", "k").await, Err(SaleError::LostRace)),
                "the cache is stale"
            );
            assert!(
                matches!(frozen.buy(Step::Cache, "bob", "k").await, Err(SaleError::SoldOut)),
                "the cache is updated"
            );
        }
        let again = frozen.shop.buy(step, alice.clone()).await.unwrap();
        assert_eq!(again, PurchaseOutcome::Existing(Order::new(&alice, OrderState::Unpaid)), "{step}");
    }
}

/// A request with the key of an ended order returns that order, also if the buyer has several ended orders.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_ended_order_creates_no_new_order() {
    for step in Step::ALL {
        let frozen = FrozenShop::open(1, |_| {}).await;
        let mut ended = Vec::new();
        for key in ["first", "second", "third"] {
            assert_eq!(frozen.buy(step, "alice", key).await.unwrap().state, OrderState::Unpaid, "{step}");
            assert_orders_stay_ended(&frozen, step, &ended).await;
            frozen.clock.advance(LONG);
            frozen.shop.sweep().await.unwrap();
            ended.push(purchase("alice", key));
            assert_orders_stay_ended(&frozen, step, &ended).await;
        }
    }
}

async fn assert_orders_stay_ended(frozen: &FrozenShop, step: Step, ended: &[Purchase]) {
    for purchase in ended {
        let again = frozen.shop.buy(step, purchase.clone()).await.unwrap();
        assert_eq!(again, PurchaseOutcome::Existing(Order::new(purchase, OrderState::Cancelled)), "{step}");
    }
}

/// The cache is lost: orders in the journal are reserved again, including those queued after the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_journaled_order_keeps_its_item_when_the_cache_is_lost() {
    let redis = RedisServer::start().unwrap();
    let frozen = FrozenShop::without_consumer(1, |settings| settings.cache = redis.url()).await;
    assert!(matches!(frozen.shop.buy(Step::Queue, purchase("alice", "k")).await, Ok(PurchaseOutcome::Accepted(_))));
    redis.command(&["FLUSHALL"]).unwrap();
    assert!(matches!(frozen.shop.buy(Step::Queue, purchase("bob", "k")).await, Err(SaleError::SoldOut)));
    let consuming = tokio::spawn(frozen.shop.clone().consume());
    assert_eq!(wait_until_settled(&frozen.shop, "alice.k").await.state, OrderState::Unpaid);
    consuming.abort();
}

/// The cache is lost: acknowledged orders are not reserved again, including those in the journal at the start.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_order_holds_no_item_when_the_cache_is_lost() {
    let (redis, dir) = (RedisServer::start().unwrap(), TempDir::new());
    let journal = dir.shop().queue;
    let killed = OrderQueue::open(&journal, Duration::ZERO).await.unwrap();
    killed.put(&purchase("alice", "k")).await.unwrap();
    drop(killed);
    let frozen = FrozenShop::open(1, |settings| (settings.cache, settings.queue) = (redis.url(), journal)).await;
    let journal_path = dir.path().join("journal");
    until(async || fs::read_to_string(&journal_path).unwrap().contains("done")).await;
    assert_eq!(frozen.shop.order("alice.k").await.unwrap().state, OrderState::Unpaid);
    frozen.shop.restock(1).await.unwrap();
    redis.command(&["FLUSHALL"]).unwrap();
    assert_eq!(frozen.buy(Step::Queue, "bob", "k").await.unwrap().state, OrderState::Unpaid);
}

/// Redis restarts from an old snapshot with a reservation whose order has been placed or has ended.
#[tokio::test(flavor = "multi_thread")]
async fn no_reservation_outlives_its_order() {
    let redis = RedisServer::start().unwrap();
    let frozen = FrozenShop::open(2, |settings| settings.cache = redis.url()).await;
    let older = StockCache::open(&redis.url()).await.unwrap();
    frozen.buy(Step::Queue, "alice", "k").await.unwrap();
    older.restore_reservation(&purchase("alice", "k")).await.unwrap();
    assert!(
        matches!(frozen.buy(Step::Queue, "bob", "k").await, Err(SaleError::SoldOut)),
        "alice has one item and one reservation"
    );
    frozen.shop.sweep().await.unwrap();
    assert_eq!(older.reservations().await.unwrap(), []);
    assert_eq!(frozen.buy(Step::Queue, "bob", "k").await.unwrap().state, OrderState::Unpaid);
}

/// An order is placed, and the cache is not updated.
#[tokio::test(flavor = "multi_thread")]
async fn payment_succeeds_with_a_stale_cache() {
    let frozen = FrozenShop::without_consumer(1, |_| {}).await;
    let alice = purchase("alice", "k");
    assert!(matches!(frozen.shop.buy(Step::Queue, alice.clone()).await, Ok(PurchaseOutcome::Accepted(_))));
    let early = frozen.shop.pay("alice.k").await.unwrap_err();
    assert!(matches!(early, SaleError::NotPayable { state: OrderState::Waiting, .. }), "{early}");
    let consumer = Database::open(&frozen.settings.database).await.unwrap();
    assert!(matches!(consumer.place_queued(&alice, i64::MAX).await.unwrap(), SaleResult::Sold(_)));
    for time in ["first", "second"] {
        assert_eq!(frozen.shop.pay("alice.k").await.unwrap().state, OrderState::Paid, "{time}");
    }
}

/// An expiry that a killed process began is completed by the sweeper or by a retry of the buyer.
#[tokio::test(flavor = "multi_thread")]
async fn a_begun_expiry_is_completed() {
    for retries in [false, true] {
        let redis = RedisServer::start().unwrap();
        let frozen = FrozenShop::without_consumer(1, |settings| settings.cache = redis.url()).await;
        let killed = StockCache::open(&redis.url()).await.unwrap();
        let alice = purchase("alice", "k");
        killed.reserve(&alice, now(&frozen), false).await.unwrap();
        assert!(killed.begin_expiry(&alice, now(&frozen)).await.unwrap());
        if retries {
            let again = frozen.shop.buy(Step::Queue, alice.clone()).await.unwrap();
            assert_eq!(again, PurchaseOutcome::Existing(Order::new(&alice, OrderState::Expired)));
        } else {
            frozen.shop.sweep().await.unwrap();
        }
        assert_eq!(frozen.shop.order("alice.k").await.unwrap().state, OrderState::Expired);
        assert!(matches!(frozen.shop.buy(Step::Queue, purchase("bob", "k")).await, Ok(PurchaseOutcome::Accepted(_))));
    }
}

/// More overdue orders than one query returns.
#[tokio::test(flavor = "multi_thread")]
async fn one_sweep_cancels_everything_overdue() {
    let frozen = FrozenShop::open(230, |_| {}).await;
    for buyer in 0..230 {
        frozen.buy(Step::Plain, &format!("buyer-{buyer}"), "k").await.unwrap();
    }
    frozen.clock.advance(LONG);
    frozen.shop.sweep().await.unwrap();
    let totals = frozen.shop.totals().await.unwrap();
    assert_eq!((totals.left, totals.sold), (230, 0));
}

/// A sweep without overdue orders takes one statement.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_sweep_costs_one_statement() {
    let frozen = FrozenShop::open(2, |_| {}).await;
    frozen.buy(Step::Queue, "alice", "k").await.unwrap();
    let before = frozen.shop.totals().await.unwrap().statements;
    frozen.shop.sweep().await.unwrap();
    assert_eq!(frozen.shop.totals().await.unwrap().statements, before + 1);
}

/// A client disconnects during a restock while the database is busy.
#[tokio::test(flavor = "multi_thread")]
async fn a_restock_completes_after_the_client_disconnects() {
    let dir = TempDir::new();
    let app = open_app(app_settings(dir.shop())).await;
    app.shop().restock(1).await.unwrap();
    let mut blocker = SqliteConnection::connect(&dir.shop().database).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut blocker).await.unwrap();
    let before = app.shop().totals().await.unwrap().statements;
    let mut client = tokio::net::TcpStream::connect(app.addresses().shop).await.unwrap();
    let body = r#"{"items":7}"#;
    let request = format!(
        "PUT /stock HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    until(async || app.shop().totals().await.unwrap().statements > before).await;
    drop(client);
    // A response to a later request shows that the shop has processed the disconnect.
    reqwest::get(format!("http://{}/stock", app.addresses().shop)).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await.unwrap();
    until(async || app.shop().totals().await.unwrap().items == 7).await;
    app.close().await;
}
