//! `kill -9` at any point: nothing is oversold, every accepted order has a result, and all items are sold in the end.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use sluicegate_flash_sale::OrderState;
use sluicegate_flash_sale::drive::Scenario;
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::process::{Buyers, ShopProcess, TEST_TIMEOUT};
use crate::support::{PER_SECOND, TempDir, rules};

/// Options of a process with limits that are never reached.
fn options(dir: &TempDir, consumer_rate: &str, overrides: &[(&str, &str)]) -> Vec<String> {
    dir.options(&rules().replace("20/s", "200/s"), consumer_rate, overrides)
}

fn with_items(options: &[String]) -> Vec<String> {
    [options, &["--items".to_owned(), "10".to_owned()]].concat()
}

/// All ten orders are accepted, some are placed, and the consumer is killed: its successors place the rest. The first
/// two processes stop consuming after three orders, so that the kill always happens in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_killed_with_orders_in_its_journal() {
    let dir = TempDir::new();
    let slow_options = options(&dir, "3/1h", &[]);
    let shop = ShopProcess::start(&with_items(&slow_options));
    let mut buyers = Buyers::new(Step::Queue);
    buyers.until_accepted(shop.url(), 10).await;
    let started = Instant::now();
    while buyers.totals(shop.url()).await.sold < 3 {
        assert!(started.elapsed() < TEST_TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shop.kill();

    let shop = ShopProcess::start(&slow_options);
    let placed = buyers.totals(shop.url()).await;
    assert!((3..=6).contains(&placed.sold), "killed in the middle: {placed:?}");
    assert_eq!(buyers.next(shop.url()).await.map(|status| status.as_u16()), Some(410), "the rest is still reserved");
    shop.kill();

    let shop = ShopProcess::start(&options(&dir, "50/s", &[]));
    let results = buyers.results(shop.url()).await;
    assert!(results.len() == 10 && results.values().all(|state| *state == OrderState::Unpaid), "{results:?}");
    let totals = buyers.totals(shop.url()).await;
    assert_eq!((totals.sold, totals.left, totals.oversold()), (10, 0, 0));
}

/// Kills the shop six times under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_is_killed_repeatedly_under_load() {
    let dir = TempDir::new();
    let options = options(&dir, "50/s", &[]);
    let mut shop = ShopProcess::start(&with_items(&options));
    let mut buyers = Buyers::new(Step::Queue);
    for round in 0..6 {
        for _ in 0..2 {
            buyers.next(shop.url()).await;
        }
        // One request is in flight when the process is killed, at a different stage in each round.
        let url = shop.url().to_owned();
        let killing = async {
            tokio::time::sleep(Duration::from_micros(700 * round)).await;
            shop.kill();
        };
        tokio::join!(buyers.next(&url), killing);
        shop = ShopProcess::start(&options);
    }
    let totals = buyers.until_sold_out(shop.url(), shop.url()).await;
    assert_eq!((totals.sold, totals.left, totals.oversold()), (10, 0, 0));
    let results = buyers.results(shop.url()).await;
    let bought = results.values().filter(|state| **state == OrderState::Unpaid).count();
    // A buyer without a response may have bought an item as well.
    assert!(bought <= 10 && results.values().all(|state| *state != OrderState::Waiting), "{results:?}");
    assert_eq!(results.len() - bought, 0, "every accepted order has an item: {results:?}");
}

/// One of two processes is killed with unacknowledged orders: the other one places them.
async fn one_of_two_is_killed(backends: &[(&str, &str)]) {
    let dir = TempDir::new();
    let options = options(&dir, "8/s", backends);
    let one = ShopProcess::start(&with_items(&options));
    let other = ShopProcess::start(&options);
    let mut buyers = Buyers::new(Step::Queue);
    for count in 1..=7 {
        buyers.until_accepted(if count % 2 == 0 { one.url() } else { other.url() }, count).await;
    }
    let url = one.url().to_owned();
    let killing = async {
        tokio::time::sleep(Duration::from_micros(500)).await;
        one.kill();
    };
    tokio::join!(buyers.next(&url), killing);

    let totals = buyers.until_sold_out(other.url(), other.url()).await;
    assert_eq!((totals.sold, totals.left, totals.oversold()), (10, 0, 0));
    let results = buyers.results(other.url()).await;
    assert!(
        results.values().all(|state| *state == OrderState::Unpaid),
        "every accepted order has an item: {results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_is_killed_on_redis() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    one_of_two_is_killed(&[("--cache", &url), ("--limits", &url), ("--queue", &url)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_is_killed_on_mariadb_and_rabbitmq() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let (url, database, queue) = (redis.url(), mariadb.url(), rabbit.url());
    one_of_two_is_killed(&[("--cache", &url), ("--limits", &url), ("--database", &database), ("--queue", &queue)])
        .await;
}

/// The same in the steps without a queue: one of two processes is killed in its transaction, between database and
/// cache, or with the only permit of the cluster; the other one sells the rest.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_is_killed_in_every_other_step() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    for scenario in Scenario::ALL.into_iter().filter(|scenario| *scenario != Scenario::Shop(Step::Queue)) {
        let dir = TempDir::new();
        let options = options(&dir, "50/s", &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
        let one = ShopProcess::start(&with_items(&options));
        let other = ShopProcess::start(&options);
        // The gateway serves the step `cache`.
        let (step, url_of): (_, fn(&ShopProcess) -> &str) = match scenario {
            Scenario::Gateway => (Step::Cache, ShopProcess::gateway),
            Scenario::Shop(step) => (step, ShopProcess::url),
        };
        let mut buyers = Buyers::new(step);
        for count in 1..=5 {
            buyers.until_accepted(url_of(if count % 2 == 0 { &one } else { &other }), count).await;
        }
        let url = url_of(&one).to_owned();
        let killing = async {
            tokio::time::sleep(Duration::from_micros(1_500)).await;
            one.kill();
        };
        let response = tokio::join!(buyers.next(&url), killing).0;
        let last = buyers.last_buyer();
        // A buyer without a response retries at the other process with the same key after the sale is sold out.
        let totals = buyers.until_sold_out(url_of(&other), other.url()).await;
        assert_eq!((totals.sold, totals.left, totals.oversold()), (10, 0, 0), "{scenario}");
        if response.is_none() && buyers.has_order(other.url(), &last).await {
            assert_eq!(buyers.retry(url_of(&other), &last).await, Some(StatusCode::OK), "{scenario}");
        }
        let results = buyers.results(other.url()).await;
        // A buyer without a response may have bought an item as well.
        assert!(
            results.len() >= 9 && results.values().all(|state| *state == OrderState::Unpaid),
            "{scenario}: {results:?}"
        );
    }
}

/// Both processes share one limit, before and after one of them is killed: its used quota stays used, and the other one
/// gets the full limit.
#[tokio::test(flavor = "multi_thread")]
async fn the_shared_limit_holds_when_one_of_two_is_killed() {
    let (redis, dir) = (RedisServer::start().unwrap(), TempDir::new());
    let url = redis.url();
    let options = dir.options(&rules(), "40/s", &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
    let one = ShopProcess::start(&with_items(&options));
    let other = ShopProcess::start(&options);
    let mut buyers = Buyers::new(Step::Queue);
    let mut admitted = 0;
    // Measured from before the first request to after the last: an upper bound of the admission time.
    let started = Instant::now();
    let assert_within_limit = |admitted: u32| {
        let max = 1.0 + f64::from(PER_SECOND) * started.elapsed().as_secs_f64();
        assert!(f64::from(admitted) <= max, "{admitted} admitted, the maximum is {max}");
    };
    let is_admitted = |status: Option<StatusCode>| status.is_some_and(|it| it != StatusCode::TOO_MANY_REQUESTS);
    while buyers.accepted.len() < 5 {
        assert!(started.elapsed() < TEST_TIMEOUT);
        for shop in [&one, &other] {
            admitted += u32::from(is_admitted(buyers.next(shop.url()).await));
        }
        assert_within_limit(admitted);
    }
    let url = one.url().to_owned();
    let killing = async {
        tokio::time::sleep(Duration::from_micros(500)).await;
        one.kill();
    };
    admitted += u32::from(is_admitted(tokio::join!(buyers.next(&url), killing).0));
    // Continue after the sale is sold out until ten buyers have got a sold-out response.
    let mut totals = buyers.totals(other.url()).await;
    let mut sold_out = 0;
    while totals.left > 0 || sold_out < 10 {
        assert!(started.elapsed() < TEST_TIMEOUT, "{totals:?}, {sold_out} sold-out responses");
        let status = buyers.next(other.url()).await;
        admitted += u32::from(is_admitted(status));
        sold_out += u32::from(status == Some(StatusCode::GONE));
        assert_within_limit(admitted);
        totals = buyers.totals(other.url()).await;
    }
    assert_eq!((totals.sold, totals.left, totals.oversold()), (10, 0, 0));
    let results = buyers.results(other.url()).await;
    assert!(
        results.values().all(|state| *state == OrderState::Unpaid),
        "every accepted order has an item: {results:?}"
    );
}
