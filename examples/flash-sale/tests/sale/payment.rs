//! Items that are not paid in time go back, in the database and in the cache.

use std::time::Duration;

use sluicegate_flash_sale::State;
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RedisServer};

use crate::orders::Still;

const WINDOW: Duration = Duration::from_secs(900);

async fn what_is_not_paid_in_time_goes_back(still: &Still, step: Step) {
    still.shop.restock(2).await.unwrap();
    still.buy(step, "alice", "k").await.unwrap();
    still.buy(step, "bob", "k").await.unwrap();
    assert!(matches!(still.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");

    still.clock.advance(WINDOW - Duration::from_millis(1));
    assert_eq!(still.shop.pay("alice.k").await.unwrap().state, State::Paid, "{step}: just in time");
    still.shop.sweep().await.unwrap();
    assert_eq!(still.shop.order("bob.k").await.unwrap().state, State::Unpaid, "{step}: not yet");

    still.clock.advance(Duration::from_millis(1));
    let late = still.shop.pay("bob.k").await.unwrap_err();
    assert!(matches!(late, SaleError::NotPayable { .. }), "{step}: too late, though nobody has swept: {late}");
    still.shop.sweep().await.unwrap();
    still.shop.sweep().await.unwrap();
    assert_eq!(still.shop.order("bob.k").await.unwrap().state, State::Cancelled, "{step}");
    assert_eq!(still.shop.order("alice.k").await.unwrap().state, State::Paid, "{step}");
    let books = still.shop.books().await.unwrap();
    assert_eq!((books.left, books.sold, books.paid), (1, 1, 1), "{step}: given back once");

    assert_eq!(still.buy(step, "bob", "k").await.unwrap().state, State::Cancelled, "{step}: a repeat is no new order");
    assert_eq!(still.buy(step, "bob", "other").await.unwrap().state, State::Unpaid, "{step}: on sale again");
    assert!(matches!(still.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");
    assert_eq!(still.shop.pay("alice.k").await.unwrap().state, State::Paid, "{step}: paid twice is paid once");
    assert!(matches!(still.shop.pay("nobody.k").await, Err(SaleError::NoOrder { .. })), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_everything_in_one_process() {
    let still = Still::open(0, |_| {}).await;
    for step in Step::ALL {
        what_is_not_paid_in_time_goes_back(&still, step).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_mariadb_and_redis() {
    let (mariadb, redis) = (MariaDb::start().unwrap(), RedisServer::start().unwrap());
    let still = Still::open(0, |settings| {
        settings.database = mariadb.url();
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let still = still.await;
    for step in Step::ALL {
        what_is_not_paid_in_time_goes_back(&still, step).await;
    }
}

/// The sweeper itself goes by the clock.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_comes_by_itself() {
    let still = Still::open(1, |_| {}).await;
    still.buy(Step::Cache, "alice", "k").await.unwrap();
    let sweeping = tokio::spawn(still.shop.clone().sweep_for_ever());
    let swept = async {
        while still.shop.order("alice.k").await.unwrap().state != State::Cancelled {
            still.clock.advance(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Only a guard against hanging.
    tokio::time::timeout(Duration::from_secs(60), swept).await.expect("swept in time");
    sweeping.abort();
}
