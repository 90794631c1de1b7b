//! One order for each buyer, and a repeated request is the same order.

use std::time::Duration;

use sluicegate::Sluice;
use sluicegate::clock::ManualClock;
use sluicegate::rule::Rule;
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::shop::{Answer, Shop, ShopSettings, Step};
use sluicegate_flash_sale::{Order, Purchase, State};
use sluicegate_testkit::servers::RedisServer;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::Folder;

/// A shop whose time stands still, with its consumer.
pub(crate) struct Still {
    pub(crate) shop: Shop,
    pub(crate) clock: ManualClock,
    pub(crate) settings: ShopSettings,
    consumer: Option<JoinHandle<()>>,
    _folder: Folder,
}

impl Still {
    /// With so many items, and rules that let everybody in.
    pub(crate) async fn open(items: u32, change: impl FnOnce(&mut ShopSettings)) -> Self {
        let mut still = Self::without_consumer(items, change).await;
        still.consumer = Some(tokio::spawn(still.shop.clone().consume()));
        still
    }

    /// The same, but what is in the queue stays there.
    pub(crate) async fn without_consumer(items: u32, change: impl FnOnce(&mut ShopSettings)) -> Self {
        let folder = Folder::new();
        let mut settings = ShopSettings { pace: "100000/s".to_owned(), ..folder.shop() };
        change(&mut settings);
        let clock = ManualClock::new();
        let rules = ["limited-sale", "queued-sale"].map(|name| Rule::new(name, ["100000/s".parse().unwrap()]));
        let sluice = Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap();
        let shop = Shop::open(&settings, sluice).await.unwrap();
        shop.restock(items).await.unwrap();
        Self { shop, clock, settings, consumer: None, _folder: folder }
    }

    /// Buys, and waits for the result if it comes later.
    pub(crate) async fn buy(&self, step: Step, buyer: &str, key: &str) -> Result<Order, SaleError> {
        match self.shop.buy(step, Purchase::new(buyer, key).unwrap()).await? {
            Answer::New(order) | Answer::Again(order) => Ok(order),
            Answer::Later(order) => Ok(settled(&self.shop, &order.id).await),
        }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if let Some(consumer) = &self.consumer {
            consumer.abort();
        }
    }
}

/// An order once it does not wait any more.
pub(crate) async fn settled(shop: &Shop, id: &str) -> Order {
    let settling = async {
        loop {
            match shop.order(id).await.unwrap() {
                Order { state: State::Waiting, .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                order => return order,
            }
        }
    };
    // Only a guard against hanging.
    tokio::time::timeout(Duration::from_secs(60), settling).await.expect("settled in time")
}

async fn a_repeated_request_is_the_same_order(step: Step, change: impl FnOnce(&mut ShopSettings)) {
    let still = Still::open(1, change).await;
    let first = still.buy(step, "alice", "first").await.unwrap();
    assert_eq!((first.id.as_str(), first.state), ("alice.first", State::Unpaid), "{step}");
    // Also now that everything is sold.
    assert_eq!(still.buy(step, "alice", "first").await.unwrap(), first, "{step}");
    let again = still.shop.buy(step, Purchase::new("alice", "first").unwrap()).await.unwrap();
    assert_eq!(again, Answer::Again(first.clone()), "{step}");
    let other = still.buy(step, "alice", "second").await.unwrap_err();
    assert!(matches!(other, SaleError::HasOrder { order } if order == "alice.first"), "{step}");
    let late = still.buy(step, "bob", "first").await.unwrap_err();
    assert!(matches!(late, SaleError::SoldOut), "{step}: {late}");
    let books = still.shop.books().await.unwrap();
    assert_eq!((books.left, books.sold), (0, 1), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_the_same_order_in_every_step() {
    for step in Step::ALL {
        a_repeated_request_is_the_same_order(step, |_| {}).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_the_same_order_with_redis() {
    let redis = RedisServer::start().unwrap();
    for step in [Step::Cache, Step::Limit, Step::Queue] {
        let change = |settings: &mut ShopSettings| {
            settings.cache = redis.url();
            settings.queue = redis.url();
        };
        a_repeated_request_is_the_same_order(step, change).await;
        redis.command(&["FLUSHALL"]).unwrap();
    }
}

/// One buyer at fifty tills at once, under different keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_comes_often_at_once_gets_one() {
    for step in Step::ALL {
        let still = Still::open(10, |_| {}).await;
        let mut tills = JoinSet::new();
        for till in 0..50 {
            let shop = still.shop.clone();
            let purchase = Purchase::new("alice", format!("till-{till}")).unwrap();
            tills.spawn(async move { shop.buy(step, purchase).await });
        }
        let answers = tills.join_all().await;
        for answer in &answers {
            match answer {
                Ok(Answer::Later(order)) => drop(settled(&still.shop, &order.id).await),
                Ok(_) | Err(SaleError::HasOrder { .. } | SaleError::LostRace) => {}
                Err(error) => panic!("{step}: {error}"),
            }
        }
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{step}");
        let books = still.shop.books().await.unwrap();
        assert_eq!((books.left, books.sold), (9, 1), "{step}");
    }
}

/// The steps have the same books: somebody who bought by one has an order in all.
#[tokio::test(flavor = "multi_thread")]
async fn steps_can_be_mixed() {
    let still = Still::open(5, |_| {}).await;
    for (step, buyer) in Step::ALL.into_iter().zip(["a", "b", "c", "d", "e"]) {
        assert_eq!(still.buy(step, buyer, "k").await.unwrap().state, State::Unpaid, "{step}");
    }
    for step in Step::ALL {
        assert!(matches!(still.buy(step, "z", "k").await, Err(SaleError::SoldOut)), "{step}");
        for buyer in ["a", "b", "c", "d", "e"] {
            assert!(matches!(still.buy(step, buyer, "other").await, Err(SaleError::HasOrder { .. })), "{step}");
        }
    }
}

/// Redis loses everything, as when it is restarted without persistence.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_was_lost_is_rebuilt() {
    let redis = RedisServer::start().unwrap();
    for step in [Step::Cache, Step::Queue] {
        let still = Still::open(2, |settings| settings.cache = redis.url()).await;
        still.buy(step, "alice", "k").await.unwrap();
        redis.command(&["FLUSHALL"]).unwrap();
        assert!(matches!(still.buy(step, "alice", "other").await, Err(SaleError::HasOrder { .. })), "{step}");
        assert_eq!(still.buy(step, "bob", "k").await.unwrap().state, State::Unpaid, "{step}");
        assert!(matches!(still.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");
    }
}
