//! A process is killed, or a part is away, between two things that belong together. What the database holds is found, nobody
//! is promised what is over, and nothing is kept from sale for nobody.
//!
//! The process that is killed is played by its parts: they are called in the order in which the shop calls them, as far as
//! it got.

use std::fs;
use std::time::{Duration, Instant};

use sluicegate::clock::Clock;
use sluicegate_flash_sale::cache::{Look, Reserved, StockCache};
use sluicegate_flash_sale::database::{Database, Sale};
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::queue::OrderQueue;
use sluicegate_flash_sale::shop::{Answer, Step};
use sluicegate_flash_sale::{Order, Purchase, State};
use sluicegate_testkit::servers::RedisServer;
use sqlx::{Connection, SqliteConnection};
use tokio::io::AsyncWriteExt;

use crate::orders::{Still, settled};
use crate::support::{Folder, house, open};

/// Only a guard against hanging.
const GUARD: Duration = Duration::from_secs(60);
/// Longer than any window.
const LONG: Duration = Duration::from_secs(3_600);

fn purchase(buyer: &str, key: &str) -> Purchase {
    Purchase::new(buyer, key).unwrap()
}

fn now(still: &Still) -> i64 {
    i64::try_from(still.clock.now().to_unix().as_millis()).unwrap()
}

async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < GUARD);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The queue takes the order, but so late that the reservation has been given back.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_wait_for_a_reservation_that_is_over() {
    let (cache, queue) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let still =
        Still::without_consumer(1, |settings| (settings.cache, settings.queue) = (cache.url(), queue.url())).await;
    let watched = StockCache::open(&cache.url()).await.unwrap();
    queue.pause().unwrap();
    let shop = still.shop.clone();
    let buying = tokio::spawn(async move { shop.buy(Step::Queue, purchase("alice", "k")).await });
    until(async || watched.is_reserved("alice.k").await.unwrap()).await;
    still.clock.advance(LONG);
    still.shop.sweep().await.unwrap();
    queue.resume().unwrap();
    let told = buying.await.unwrap();
    assert_eq!(still.shop.order("alice.k").await.unwrap().state, State::Expired);
    match told {
        Ok(answer) => assert_eq!(answer, Answer::Again(Order::new(&purchase("alice", "k"), State::Expired))),
        // On a slow machine the queue's patience ends first.
        Err(error) => assert!(matches!(error, SaleError::Queue(_)), "{error}"),
    }
}

/// The queue takes the order, and then the cache cannot be told that the reservation must stay.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_wait_whose_reservation_may_still_go_stale() {
    let (mut cache, queue) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let still =
        Still::without_consumer(1, |settings| (settings.cache, settings.queue) = (cache.url(), queue.url())).await;
    let watched = StockCache::open(&cache.url()).await.unwrap();
    queue.pause().unwrap();
    let shop = still.shop.clone();
    let buying = tokio::spawn(async move { shop.buy(Step::Queue, purchase("alice", "k")).await });
    until(async || watched.is_reserved("alice.k").await.unwrap()).await;
    cache.kill();
    queue.resume().unwrap();
    let told = buying.await.unwrap();
    assert!(matches!(told, Err(SaleError::Cache(_) | SaleError::Queue(_))), "{told:?}");
}

/// The sweeper has read which reservations are stale and is held up by the database, when one of the buyers comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_comes_again_while_the_sweeper_is_at_it_is_told_the_truth() {
    let redis = RedisServer::start().unwrap();
    let still = Still::without_consumer(2, |settings| settings.cache = redis.url()).await;
    let killed = StockCache::open(&redis.url()).await.unwrap();
    for buyer in ["alice", "ghost"] {
        let reserved = killed.reserve(&purchase(buyer, "k"), now(&still), false).await.unwrap();
        assert_eq!(reserved, Reserved::Taken);
    }
    still.clock.advance(LONG);
    let mut holding = SqliteConnection::connect(&still.settings.database).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut holding).await.unwrap();
    let statements = async || still.shop.books().await.unwrap().statements;
    let before = statements().await;
    let sweeping = tokio::spawn({
        let shop = still.shop.clone();
        async move { shop.sweep().await }
    });
    // It has read what is due, and now wants to write.
    until(async || statements().await >= before + 2).await;
    let buying = tokio::spawn({
        let shop = still.shop.clone();
        async move { shop.buy(Step::Queue, purchase("alice", "k")).await }
    });
    // Which of the two the sweeper took first is not known. If it was alice, she waits for the database too.
    until(async || buying.is_finished() || statements().await >= before + 3).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut holding).await.unwrap();
    sweeping.await.unwrap().unwrap();
    let told = buying.await.unwrap().unwrap();
    let state = still.shop.order("alice.k").await.unwrap().state;
    match told {
        Answer::Later(_) => assert_eq!(state, State::Waiting),
        other => {
            assert_eq!((other, state), (Answer::Again(Order::new(&purchase("alice", "k"), state)), State::Expired));
        }
    }
}

/// Another sweeper took an unpaid item back and was killed before it could tell the cache.
async fn an_item_that_went_back_unheard_is_on_sale_again(step: Step, cache: &str) {
    let still = Still::open(1, |settings| settings.cache = cache.to_owned()).await;
    still.buy(step, "alice", "k").await.unwrap();
    still.clock.advance(LONG);
    let killed = Database::open(&still.settings.database).await.unwrap();
    assert!(killed.cancel("alice.k", now(&still)).await.unwrap());
    assert!(matches!(still.buy(step, "bob", "k").await, Err(SaleError::SoldOut)), "{step}: nobody knows yet");
    still.shop.sweep().await.unwrap();
    assert_eq!(still.buy(step, "alice", "other").await.unwrap().state, State::Unpaid, "{step}");
    assert_eq!(still.buy(step, "alice", "k").await.unwrap().state, State::Cancelled, "{step}");
    assert!(matches!(still.buy(step, "bob", "k").await, Err(SaleError::SoldOut)), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_went_back_unheard_is_on_sale_again_in_every_step() {
    let redis = RedisServer::start().unwrap();
    for step in [Step::Cache, Step::Limit, Step::Queue] {
        an_item_that_went_back_unheard_is_on_sale_again(step, "memory").await;
        an_item_that_went_back_unheard_is_on_sale_again(step, &redis.url()).await;
    }
}

/// A process sold the last item and was killed before it could tell its buyer, or the cache.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_not_told_finds_the_order() {
    let redis = RedisServer::start().unwrap();
    for (step, comes_first) in
        [(Step::Cache, "alice"), (Step::Cache, "bob"), (Step::Limit, "bob"), (Step::Queue, "bob")]
    {
        let still = Still::open(1, |settings| settings.cache = redis.url()).await;
        let killed = Database::open(&still.settings.database).await.unwrap();
        let alice = purchase("alice", "k");
        let look = StockCache::open(&redis.url()).await.unwrap().look(&alice, false).await.unwrap();
        let Look::Open(stock) = look else { panic!("{look:?}") };
        assert!(matches!(killed.sell_unchanged(&alice, stock, i64::MAX).await.unwrap(), Sale::Made(_)));
        if comes_first == "bob" {
            assert!(
                matches!(still.buy(Step::Cache, "bob", "k").await, Err(SaleError::LostRace)),
                "the cache is behind"
            );
            assert!(matches!(still.buy(Step::Cache, "bob", "k").await, Err(SaleError::SoldOut)), "and now it is not");
        }
        let again = still.shop.buy(step, alice.clone()).await.unwrap();
        assert_eq!(again, Answer::Again(Order::new(&alice, State::Unpaid)), "{step}");
    }
}

/// Of two orders of a buyer that ended, neither comes to life again by its key.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_order_that_ended_is_no_new_order() {
    for step in Step::ALL {
        let still = Still::open(1, |_| {}).await;
        let mut ended = Vec::new();
        for key in ["first", "second", "third"] {
            assert_eq!(still.buy(step, "alice", key).await.unwrap().state, State::Unpaid, "{step}");
            ended_stay_ended(&still, step, &ended).await;
            still.clock.advance(LONG);
            still.shop.sweep().await.unwrap();
            ended.push(purchase("alice", key));
            ended_stay_ended(&still, step, &ended).await;
        }
    }
}

async fn ended_stay_ended(still: &Still, step: Step, ended: &[Purchase]) {
    for purchase in ended {
        let again = still.shop.buy(step, purchase.clone()).await.unwrap();
        assert_eq!(again, Answer::Again(Order::new(purchase, State::Cancelled)), "{step}");
    }
}

/// The cache is lost: what is in the journal now is reserved again, also what came since the start.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_in_the_journal_keeps_its_item_when_the_cache_is_lost() {
    let redis = RedisServer::start().unwrap();
    let still = Still::without_consumer(1, |settings| settings.cache = redis.url()).await;
    assert!(matches!(still.shop.buy(Step::Queue, purchase("alice", "k")).await, Ok(Answer::Later(_))));
    redis.command(&["FLUSHALL"]).unwrap();
    assert!(matches!(still.shop.buy(Step::Queue, purchase("bob", "k")).await, Err(SaleError::SoldOut)));
    let consuming = tokio::spawn(still.shop.clone().consume());
    assert_eq!(settled(&still.shop, "alice.k").await.state, State::Unpaid);
    consuming.abort();
}

/// And nothing else, such as what was in it at the start.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_left_the_journal_keeps_nothing_when_the_cache_is_lost() {
    let (redis, folder) = (RedisServer::start().unwrap(), Folder::new());
    let journal = folder.shop().queue;
    let killed = OrderQueue::open(&journal, Duration::ZERO).await.unwrap();
    killed.put(&purchase("alice", "k")).await.unwrap();
    drop(killed);
    let still = Still::open(1, |settings| (settings.cache, settings.queue) = (redis.url(), journal)).await;
    let lines = folder.path().join("journal");
    until(async || fs::read_to_string(&lines).unwrap().contains("done")).await;
    assert_eq!(still.shop.order("alice.k").await.unwrap().state, State::Unpaid);
    still.shop.restock(1).await.unwrap();
    redis.command(&["FLUSHALL"]).unwrap();
    assert_eq!(still.buy(Step::Queue, "bob", "k").await.unwrap().state, State::Unpaid);
}

/// Redis comes back with what it knew a while ago: a reservation whose order has long been placed, or has ended.
#[tokio::test(flavor = "multi_thread")]
async fn no_reservation_outlives_its_order() {
    let redis = RedisServer::start().unwrap();
    let still = Still::open(2, |settings| settings.cache = redis.url()).await;
    let older = StockCache::open(&redis.url()).await.unwrap();
    still.buy(Step::Queue, "alice", "k").await.unwrap();
    older.remember(&purchase("alice", "k")).await.unwrap();
    assert!(matches!(still.buy(Step::Queue, "bob", "k").await, Err(SaleError::SoldOut)), "alice has two of two");
    still.shop.sweep().await.unwrap();
    assert_eq!(older.reservations().await.unwrap(), []);
    assert_eq!(still.buy(Step::Queue, "bob", "k").await.unwrap().state, State::Unpaid);
}

/// An order is placed, and the cache has not heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn who_pays_is_told_so_whatever_the_cache_believes() {
    let still = Still::without_consumer(1, |_| {}).await;
    let alice = purchase("alice", "k");
    assert!(matches!(still.shop.buy(Step::Queue, alice.clone()).await, Ok(Answer::Later(_))));
    let early = still.shop.pay("alice.k").await.unwrap_err();
    assert!(matches!(early, SaleError::NotPayable { state: State::Waiting, .. }), "{early}");
    let consumer = Database::open(&still.settings.database).await.unwrap();
    assert!(matches!(consumer.place(&alice, i64::MAX).await.unwrap(), Sale::Made(_)));
    for time in ["first", "second"] {
        assert_eq!(still.shop.pay("alice.k").await.unwrap().state, State::Paid, "{time}");
    }
}

/// A reservation is given back by whoever comes, also if the one who began it was killed; its order comes out of the queue
/// after all, and has ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_to_be_given_back_is_given_back() {
    for comes_again in [false, true] {
        let redis = RedisServer::start().unwrap();
        let still = Still::without_consumer(1, |settings| settings.cache = redis.url()).await;
        let killed = StockCache::open(&redis.url()).await.unwrap();
        let alice = purchase("alice", "k");
        killed.reserve(&alice, now(&still), false).await.unwrap();
        assert!(killed.begin_end(&alice, now(&still)).await.unwrap());
        if comes_again {
            let again = still.shop.buy(Step::Queue, alice.clone()).await.unwrap();
            assert_eq!(again, Answer::Again(Order::new(&alice, State::Expired)));
        } else {
            still.shop.sweep().await.unwrap();
        }
        assert_eq!(still.shop.order("alice.k").await.unwrap().state, State::Expired);
        assert!(matches!(still.shop.buy(Step::Queue, purchase("bob", "k")).await, Ok(Answer::Later(_))));
    }
}

/// More than are read at once.
#[tokio::test(flavor = "multi_thread")]
async fn one_round_takes_back_everything_that_is_due() {
    let still = Still::open(230, |_| {}).await;
    for buyer in 0..230 {
        still.buy(Step::Plain, &format!("buyer-{buyer}"), "k").await.unwrap();
    }
    still.clock.advance(LONG);
    still.shop.sweep().await.unwrap();
    let books = still.shop.books().await.unwrap();
    assert_eq!((books.left, books.sold), (230, 0));
}

/// Rounds in which nothing is due cost one statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_for_nothing_is_one_statement() {
    let still = Still::open(2, |_| {}).await;
    still.buy(Step::Queue, "alice", "k").await.unwrap();
    let before = still.shop.books().await.unwrap().statements;
    still.shop.sweep().await.unwrap();
    assert_eq!(still.shop.books().await.unwrap().statements, before + 1);
}

/// Whoever begins a new sale hangs up while the database is busy: it begins all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_sale_begins_though_nobody_waits_for_the_answer() {
    let folder = Folder::new();
    let house = open(house(folder.shop())).await;
    house.shop().restock(1).await.unwrap();
    let mut holding = SqliteConnection::connect(&folder.shop().database).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut holding).await.unwrap();
    let before = house.shop().books().await.unwrap().statements;
    let mut asking = tokio::net::TcpStream::connect(house.addresses().shop).await.unwrap();
    let body = r#"{"items":7}"#;
    let request = format!(
        "PUT /stock HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    asking.write_all(request.as_bytes()).await.unwrap();
    until(async || house.shop().books().await.unwrap().statements > before).await;
    drop(asking);
    // The shop has heard of it once it answers somebody who came later.
    reqwest::get(format!("http://{}/stock", house.addresses().shop)).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut holding).await.unwrap();
    until(async || house.shop().books().await.unwrap().items == 7).await;
    house.close().await;
}
