//! `kill -9` at any point: nothing is oversold, nobody who was told to wait is left without an answer, and in the
//! end everything is sold.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use sluicegate_flash_sale::State;
use sluicegate_flash_sale::drive::Scene;
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::process::{Buyers, GUARD, Process};
use crate::support::{Folder, PER_SECOND, rules};

/// Options of a process in this folder, with rules that do not get in the way.
fn options(folder: &Folder, pace: &str, more: &[(&str, &str)]) -> Vec<String> {
    folder.options(&rules().replace("20/s", "200/s"), pace, more)
}

fn with_items(options: &[String]) -> Vec<String> {
    [options, &["--items".to_owned(), "10".to_owned()]].concat()
}

/// All ten are accepted, some are placed, the consumer is killed: its successors finish. The first two are at a standstill
/// after three orders, so nobody has to be quick to kill them in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_killed_with_orders_in_its_journal() {
    let folder = Folder::new();
    let at_a_standstill = options(&folder, "3/1h", &[]);
    let shop = Process::start(&with_items(&at_a_standstill));
    let mut buyers = Buyers::new(Step::Queue);
    buyers.until_accepted(shop.url(), 10).await;
    let begun = Instant::now();
    while buyers.books(shop.url()).await.sold < 3 {
        assert!(begun.elapsed() < GUARD);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shop.kill();

    let shop = Process::start(&at_a_standstill);
    let placed = buyers.books(shop.url()).await;
    assert!((3..=6).contains(&placed.sold), "killed in the middle: {placed:?}");
    assert_eq!(buyers.next(shop.url()).await.map(|status| status.as_u16()), Some(410), "the rest is reserved still");
    shop.kill();

    let shop = Process::start(&options(&folder, "50/s", &[]));
    let results = buyers.results(shop.url()).await;
    assert!(results.len() == 10 && results.values().all(|state| *state == State::Unpaid), "{results:?}");
    let books = buyers.books(shop.url()).await;
    assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0));
}

/// Killed again and again while buyers come.
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_is_killed_in_the_rush_again_and_again() {
    let folder = Folder::new();
    let options = options(&folder, "50/s", &[]);
    let mut shop = Process::start(&with_items(&options));
    let mut buyers = Buyers::new(Step::Queue);
    for round in 0..6 {
        for _ in 0..2 {
            buyers.next(shop.url()).await;
        }
        // One is on its way in when it happens, sooner or later.
        let url = shop.url().to_owned();
        let killing = async {
            tokio::time::sleep(Duration::from_micros(700 * round)).await;
            shop.kill();
        };
        tokio::join!(buyers.next(&url), killing);
        shop = Process::start(&options);
    }
    let books = buyers.until_all_is_sold(shop.url(), shop.url()).await;
    assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0));
    let results = buyers.results(shop.url()).await;
    let bought = results.values().filter(|state| **state == State::Unpaid).count();
    // A buyer whose shop died before it answered may have bought all the same.
    assert!(bought <= 10 && results.values().all(|state| *state != State::Waiting), "{results:?}");
    assert_eq!(results.len() - bought, 0, "whoever was accepted has an item: {results:?}");
}

/// Of two processes one is killed with orders in its hands: the other inherits them.
async fn one_of_two_is_killed(more: &[(&str, &str)]) {
    let folder = Folder::new();
    let options = options(&folder, "8/s", more);
    let one = Process::start(&with_items(&options));
    let other = Process::start(&options);
    let mut buyers = Buyers::new(Step::Queue);
    for many in 1..=7 {
        buyers.until_accepted(if many % 2 == 0 { one.url() } else { other.url() }, many).await;
    }
    let url = one.url().to_owned();
    let killing = async {
        tokio::time::sleep(Duration::from_micros(500)).await;
        one.kill();
    };
    tokio::join!(buyers.next(&url), killing);

    let books = buyers.until_all_is_sold(other.url(), other.url()).await;
    assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0));
    let results = buyers.results(other.url()).await;
    assert!(results.values().all(|state| *state == State::Unpaid), "whoever was accepted has an item: {results:?}");
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

/// Also where nothing is queued: one of two dies with a purchase in its hands, in its transaction, between the database and
/// the cache, or with the one permit of the fleet; the other sells the rest.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_is_killed_in_every_other_step() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    for scene in Scene::ALL.into_iter().filter(|scene| *scene != Scene::Shop(Step::Queue)) {
        let folder = Folder::new();
        let options = options(&folder, "50/s", &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
        let one = Process::start(&with_items(&options));
        let other = Process::start(&options);
        // Behind the gateway it is the step with the cache.
        let (step, door): (_, fn(&Process) -> &str) = match scene {
            Scene::Gateway => (Step::Cache, Process::gateway),
            Scene::Shop(step) => (step, Process::url),
        };
        let mut buyers = Buyers::new(step);
        for many in 1..=5 {
            buyers.until_accepted(door(if many % 2 == 0 { &one } else { &other }), many).await;
        }
        let url = door(&one).to_owned();
        let killing = async {
            tokio::time::sleep(Duration::from_micros(1_500)).await;
            one.kill();
        };
        let told = tokio::join!(buyers.next(&url), killing).0;
        let last = buyers.last();
        // Whoever was not told asks the other with the same key, when everything is sold.
        let books = buyers.until_all_is_sold(door(&other), other.url()).await;
        assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0), "{scene}");
        if told.is_none() && buyers.has(other.url(), &last).await {
            assert_eq!(buyers.again(door(&other), &last).await, Some(StatusCode::OK), "{scene}");
        }
        let results = buyers.results(other.url()).await;
        // One whose shop died before it answered may have bought all the same.
        assert!(results.len() >= 9 && results.values().all(|state| *state == State::Unpaid), "{scene}: {results:?}");
    }
}

/// One threshold for both, before one of them is killed and after: what the dead one has taken stays taken, and the
/// other gets the whole limit.
#[tokio::test(flavor = "multi_thread")]
async fn the_threshold_stays_one_when_one_of_two_is_killed() {
    let (redis, folder) = (RedisServer::start().unwrap(), Folder::new());
    let url = redis.url();
    let options = folder.options(&rules(), "40/s", &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
    let one = Process::start(&with_items(&options));
    let other = Process::start(&options);
    let mut buyers = Buyers::new(Step::Queue);
    let mut let_in = 0;
    // From before the first buyer to after the last: no shorter than the time in which they were let in.
    let begun = Instant::now();
    let within_the_limit = |let_in: u32| {
        let most = 1.0 + f64::from(PER_SECOND) * begun.elapsed().as_secs_f64();
        assert!(f64::from(let_in) <= most, "{let_in} were let in, at most {most} may be");
    };
    let is_let_in = |status: Option<StatusCode>| status.is_some_and(|it| it != StatusCode::TOO_MANY_REQUESTS);
    while buyers.accepted.len() < 5 {
        assert!(begun.elapsed() < GUARD);
        for shop in [&one, &other] {
            let_in += u32::from(is_let_in(buyers.next(shop.url()).await));
        }
        within_the_limit(let_in);
    }
    let url = one.url().to_owned();
    let killing = async {
        tokio::time::sleep(Duration::from_micros(500)).await;
        one.kill();
    };
    let_in += u32::from(is_let_in(tokio::join!(buyers.next(&url), killing).0));
    // All is sold, and then as many come as were needed for that, and are told so.
    let mut books = buyers.books(other.url()).await;
    let mut told = 0;
    while books.left > 0 || told < 10 {
        assert!(begun.elapsed() < GUARD, "{books:?}, and {told} were told so");
        let status = buyers.next(other.url()).await;
        let_in += u32::from(is_let_in(status));
        told += u32::from(status == Some(StatusCode::GONE));
        within_the_limit(let_in);
        books = buyers.books(other.url()).await;
    }
    assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0));
    let results = buyers.results(other.url()).await;
    assert!(results.values().all(|state| *state == State::Unpaid), "whoever was accepted has an item: {results:?}");
}
