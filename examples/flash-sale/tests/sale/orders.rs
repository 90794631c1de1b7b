//! One order per buyer, and idempotent requests.

use std::time::Duration;

use sluicegate::Sluice;
use sluicegate::clock::ManualClock;
use sluicegate::rule::Rule;
use sluicegate_flash_sale::error::SaleError;
use sluicegate_flash_sale::shop::{PurchaseOutcome, Shop, ShopSettings, Step};
use sluicegate_flash_sale::{Order, OrderState, Purchase};
use sluicegate_testkit::servers::RedisServer;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::TempDir;

/// Shop with a manual clock and an optional consumer.
pub(crate) struct FrozenShop {
    pub(crate) shop: Shop,
    pub(crate) clock: ManualClock,
    pub(crate) settings: ShopSettings,
    consumer: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl FrozenShop {
    /// Opens a shop with rules that are never reached.
    pub(crate) async fn open(items: u32, change: impl FnOnce(&mut ShopSettings)) -> Self {
        let mut frozen = Self::without_consumer(items, change).await;
        frozen.consumer = Some(tokio::spawn(frozen.shop.clone().consume()));
        frozen
    }

    /// The same without a consumer: orders stay in the queue.
    pub(crate) async fn without_consumer(items: u32, change: impl FnOnce(&mut ShopSettings)) -> Self {
        let dir = TempDir::new();
        let mut settings = ShopSettings { consumer_rate: "100000/s".to_owned(), ..dir.shop() };
        change(&mut settings);
        let clock = ManualClock::new();
        let rules = ["limited-sale", "queued-sale"].map(|name| Rule::new(name, ["100000/s".parse().unwrap()]));
        let sluice = Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap();
        let shop = Shop::open(&settings, sluice).await.unwrap();
        shop.restock(items).await.unwrap();
        Self { shop, clock, settings, consumer: None, _dir: dir }
    }

    /// Buys and waits for the result of a queued order.
    pub(crate) async fn buy(&self, step: Step, buyer: &str, key: &str) -> Result<Order, SaleError> {
        match self.shop.buy(step, Purchase::new(buyer, key).unwrap()).await? {
            PurchaseOutcome::New(order) | PurchaseOutcome::Existing(order) => Ok(order),
            PurchaseOutcome::Accepted(order) => Ok(wait_until_settled(&self.shop, &order.id).await),
        }
    }
}

impl Drop for FrozenShop {
    fn drop(&mut self) {
        if let Some(consumer) = &self.consumer {
            consumer.abort();
        }
    }
}

/// Waits until the order has left the queue.
pub(crate) async fn wait_until_settled(shop: &Shop, id: &str) -> Order {
    let settling = async {
        loop {
            match shop.order(id).await.unwrap() {
                Order { state: OrderState::Waiting, .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                order => return order,
            }
        }
    };
    // Prevents a hanging test.
    tokio::time::timeout(Duration::from_secs(60), settling).await.expect("settled in time")
}

async fn check_repeated_request(step: Step, change: impl FnOnce(&mut ShopSettings)) {
    let frozen = FrozenShop::open(1, change).await;
    let first = frozen.buy(step, "alice", "first").await.unwrap();
    assert_eq!((first.id.as_str(), first.state), ("alice.first", OrderState::Unpaid), "{step}");
    // Also after the sale is sold out.
    assert_eq!(frozen.buy(step, "alice", "first").await.unwrap(), first, "{step}");
    let again = frozen.shop.buy(step, Purchase::new("alice", "first").unwrap()).await.unwrap();
    assert_eq!(again, PurchaseOutcome::Existing(first.clone()), "{step}");
    let other = frozen.buy(step, "alice", "second").await.unwrap_err();
    assert!(matches!(other, SaleError::HasOrder { order } if order == "alice.first"), "{step}");
    let late = frozen.buy(step, "bob", "first").await.unwrap_err();
    assert!(matches!(late, SaleError::SoldOut), "{step}: {late}");
    let totals = frozen.shop.totals().await.unwrap();
    assert_eq!((totals.left, totals.sold), (0, 1), "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_the_same_order_in_every_step() {
    for step in Step::ALL {
        check_repeated_request(step, |_| {}).await;
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
        check_repeated_request(step, change).await;
        redis.command(&["FLUSHALL"]).unwrap();
    }
}

/// Fifty concurrent requests of one buyer with different keys.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_of_one_buyer_create_one_order() {
    for step in Step::ALL {
        let frozen = FrozenShop::open(10, |_| {}).await;
        let mut requests = JoinSet::new();
        for number in 0..50 {
            let shop = frozen.shop.clone();
            let purchase = Purchase::new("alice", format!("key-{number}")).unwrap();
            requests.spawn(async move { shop.buy(step, purchase).await });
        }
        let results = requests.join_all().await;
        for result in &results {
            match result {
                Ok(PurchaseOutcome::Accepted(order)) => drop(wait_until_settled(&frozen.shop, &order.id).await),
                Ok(_) | Err(SaleError::HasOrder { .. } | SaleError::LostRace) => {}
                Err(error) => panic!("{step}: {error}"),
            }
        }
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{step}");
        let totals = frozen.shop.totals().await.unwrap();
        assert_eq!((totals.left, totals.sold), (9, 1), "{step}");
    }
}

/// All steps share the database: an order of one step counts in all of them.
#[tokio::test(flavor = "multi_thread")]
async fn steps_can_be_mixed() {
    let frozen = FrozenShop::open(5, |_| {}).await;
    for (step, buyer) in Step::ALL.into_iter().zip(["a", "b", "c", "d", "e"]) {
        assert_eq!(frozen.buy(step, buyer, "k").await.unwrap().state, OrderState::Unpaid, "{step}");
    }
    for step in Step::ALL {
        assert!(matches!(frozen.buy(step, "z", "k").await, Err(SaleError::SoldOut)), "{step}");
        for buyer in ["a", "b", "c", "d", "e"] {
            assert!(matches!(frozen.buy(step, buyer, "other").await, Err(SaleError::HasOrder { .. })), "{step}");
        }
    }
}

/// Redis loses its data, as after a restart without persistence.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_cache_is_rebuilt() {
    let redis = RedisServer::start().unwrap();
    for step in [Step::Cache, Step::Queue] {
        let frozen = FrozenShop::open(2, |settings| settings.cache = redis.url()).await;
        frozen.buy(step, "alice", "k").await.unwrap();
        redis.command(&["FLUSHALL"]).unwrap();
        assert!(matches!(frozen.buy(step, "alice", "other").await, Err(SaleError::HasOrder { .. })), "{step}");
        assert_eq!(frozen.buy(step, "bob", "k").await.unwrap().state, OrderState::Unpaid, "{step}");
        assert!(matches!(frozen.buy(step, "carol", "k").await, Err(SaleError::SoldOut)), "{step}");
    }
}
