//! `kill -9` at any point: nothing is oversold, nobody who was told to wait is left without an answer, and in the
//! end everything is sold.

use std::fs;
use std::time::Duration;

use sluicegate_flash_sale::State;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::process::{Buyers, Process};
use crate::support::{Folder, RULES_FILE};

/// A folder with rules that do not get in the way.
fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join(RULES_FILE), crate::support::rules().replace("20/s", "200/s")).unwrap();
    folder
}

fn options(folder: &Folder, pace: &str, more: &[(&str, &str)]) -> Vec<String> {
    let shop = folder.shop();
    let rules = folder.path().join(RULES_FILE).display().to_string();
    let usual = [
        ("--database", shop.database.as_str()),
        ("--queue", &shop.queue),
        ("--rules", &rules),
        ("--pace", pace),
        ("--reservation-window", "2"),
        ("--claim-after", "0.5"),
    ];
    let kept = usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    kept.chain(more).flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
}

fn with_items(options: &[String]) -> Vec<String> {
    [options, &["--items".to_owned(), "10".to_owned()]].concat()
}

/// All ten are accepted, some are placed, the consumer is killed: its successors finish. The first two are at a standstill
/// after three orders, so nobody has to be quick to kill them in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_killed_with_orders_in_its_journal() {
    let folder = folder();
    let at_a_standstill = options(&folder, "3/1h", &[]);
    let shop = Process::start(&with_items(&at_a_standstill));
    let mut buyers = Buyers::new();
    buyers.until_accepted(shop.url(), 10).await;
    while buyers.books(shop.url()).await.sold < 3 {
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
    let folder = folder();
    let options = options(&folder, "50/s", &[]);
    let mut shop = Process::start(&with_items(&options));
    let mut buyers = Buyers::new();
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
    let books = buyers.until_all_is_sold(shop.url()).await;
    assert_eq!((books.sold, books.left, books.oversold()), (10, 0, 0));
    let results = buyers.results(shop.url()).await;
    let bought = results.values().filter(|state| **state == State::Unpaid).count();
    // A buyer whose shop died before it answered may have bought all the same.
    assert!(bought <= 10 && results.values().all(|state| *state != State::Waiting), "{results:?}");
    assert_eq!(results.len() - bought, 0, "whoever was accepted has an item: {results:?}");
}

/// Of two processes one is killed with orders in its hands: the other inherits them.
async fn one_of_two_is_killed(more: &[(&str, &str)]) {
    let folder = folder();
    let options = options(&folder, "8/s", more);
    let one = Process::start(&with_items(&options));
    let other = Process::start(&options);
    let mut buyers = Buyers::new();
    for many in 1..=7 {
        buyers.until_accepted(if many % 2 == 0 { one.url() } else { other.url() }, many).await;
    }
    let url = one.url().to_owned();
    let killing = async {
        tokio::time::sleep(Duration::from_micros(500)).await;
        one.kill();
    };
    tokio::join!(buyers.next(&url), killing);

    let books = buyers.until_all_is_sold(other.url()).await;
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
