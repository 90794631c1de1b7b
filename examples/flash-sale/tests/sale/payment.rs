//! Unpaid items return to the stock, in the database and in the cache.

use std::time::Duration;

use sluicegate_flash_sale::OrderState;
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RedisServer};

use crate::orders::FrozenShop;

const WINDOW: Duration = Duration::from_secs(900);

async fn check_unpaid_items_return(frozen: &FrozenShop, step: Step) {
    frozen.shop.restock(2).await.unwrap();
    frozen.buy(step, "alice", "k").await.unwrap();
    frozen.buy(step, "bob", "k").await.unwrap();
    assert!(matches!(frozen.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");

    frozen.clock.advance(WINDOW - Duration::from_millis(1));
    assert_eq!(frozen.shop.pay("alice.k").await.unwrap().state, OrderState::Paid, "{step}: within the window");
    frozen.shop.sweep().await.unwrap();
    assert_eq!(frozen.shop.order("bob.k").await.unwrap().state, OrderState::Unpaid, "{step}: not yet");

    frozen.clock.advance(Duration::from_millis(1));
    let late = frozen.shop.pay("bob.k").await.unwrap_err();
    assert!(matches!(late, SaleError::NotPayable { .. }), "{step}: too late, also before a sweep: {late}");
    frozen.shop.sweep().await.unwrap();
    frozen.shop.sweep().await.unwrap();
    assert_eq!(frozen.shop.order("bob.k").await.unwrap().state, OrderState::Cancelled, "{step}");
    assert_eq!(frozen.shop.order("alice.k").await.unwrap().state, OrderState::Paid, "{step}");
    let totals = frozen.shop.totals().await.unwrap();
    assert_eq!((totals.left, totals.sold, totals.paid), (1, 1, 1), "{step}: returned once");

    assert_eq!(
        frozen.buy(step, "bob", "k").await.unwrap().state,
        OrderState::Cancelled,
        "{step}: a repeated request creates no new order"
    );
    assert_eq!(frozen.buy(step, "bob", "other").await.unwrap().state, OrderState::Unpaid, "{step}: on sale again");
    assert!(matches!(frozen.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");
    assert_eq!(frozen.shop.pay("alice.k").await.unwrap().state, OrderState::Paid, "{step}: payment is idempotent");
    assert!(matches!(frozen.shop.pay("nobody.k").await, Err(SaleError::NoOrder { .. })), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unpaid_items_return_in_one_process() {
    let frozen = FrozenShop::open(0, |_| {}).await;
    for step in Step::ALL {
        check_unpaid_items_return(&frozen, step).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unpaid_items_return_with_mariadb_and_redis() {
    let (mariadb, redis) = (MariaDb::start().unwrap(), RedisServer::start().unwrap());
    let frozen = FrozenShop::open(0, |settings| {
        settings.database = mariadb.url();
        settings.cache = redis.url();
        settings.queue = redis.url();
    });
    let frozen = frozen.await;
    for step in Step::ALL {
        check_unpaid_items_return(&frozen, step).await;
    }
}

/// The sweeper uses the clock of the shop.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_runs_on_its_own_clock() {
    let frozen = FrozenShop::open(1, |_| {}).await;
    frozen.buy(Step::Cache, "alice", "k").await.unwrap();
    let sweeping = tokio::spawn(frozen.shop.clone().run_sweeper());
    let swept = async {
        while frozen.shop.order("alice.k").await.unwrap().state != OrderState::Cancelled {
            frozen.clock.advance(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Prevents a hanging test.
    tokio::time::timeout(Duration::from_secs(60), swept).await.expect("swept in time");
    sweeping.abort();
}
