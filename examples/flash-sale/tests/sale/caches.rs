//! The cache in this process and the one in Redis behave the same, whatever is done to them in whatever order.

use sluicegate_flash_sale::Purchase;
use sluicegate_flash_sale::cache::{Look, Queued, Reservation, Reserved, Shut, Stage, StockCache};
use sluicegate_flash_sale::database::Stock;
use sluicegate_testkit::servers::RedisServer;

const STOCK: Stock = Stock { left: 1, version: 5 };

fn purchase(buyer: &str, key: &str) -> Purchase {
    Purchase::new(buyer, key).unwrap()
}

/// Numbers without a pattern that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Something that can be done to a cache, and what it answers.
async fn done(cache: &StockCache, mut dice: Dice) -> String {
    let buyer = ["alice", "bob", "carol"][usize::try_from(dice.below(3)).unwrap()];
    let purchase = purchase(buyer, ["k", "l"][usize::try_from(dice.below(2)).unwrap()]);
    let now = i64::try_from(dice.below(10)).unwrap();
    let stock =
        Stock { left: i64::try_from(dice.below(4)).unwrap(), version: i64::try_from(dice.below(1_000)).unwrap() };
    let flag = dice.below(2) == 1;
    match dice.below(40) {
        0 => format!("{:?}", cache.forget().await.unwrap()),
        1 => format!("{:?}", cache.begin_anew(stock).await.unwrap()),
        2..=4 => format!("{:?}", cache.declare_whole(stock).await.unwrap()),
        5..=6 => format!("{:?}", cache.seen(stock).await.unwrap()),
        7..=12 => format!("{:?}", cache.look(&purchase, flag).await.unwrap()),
        13..=14 => format!("{:?}", cache.bought_nothing(&purchase).await.unwrap()),
        15..=22 => format!("{:?}", cache.reserve(&purchase, now, flag).await.unwrap()),
        23..=26 => format!("{:?}", cache.queued(&purchase).await.unwrap()),
        27..=29 => format!("{:?}", cache.begin_end(&purchase, now).await.unwrap()),
        30 => format!("{:?}", cache.remember(&purchase).await.unwrap()),
        31..=35 => format!("{:?}", cache.settled(&purchase, flag, stock).await.unwrap()),
        36..=37 => format!("{:?}", cache.has_no_more(buyer, &purchase.order()).await.unwrap()),
        38 => format!("{:?}", cache.version().await.unwrap()),
        _ => format!("{:?}", cache.is_reserved(&purchase.order()).await.unwrap()),
    }
}

async fn held(cache: &StockCache) -> Vec<Reservation> {
    let mut held = cache.reservations().await.unwrap();
    held.sort_by_key(|reservation| reservation.purchase.order());
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn both_caches_answer_alike() {
    let redis = RedisServer::start().unwrap();
    for seed in 0..20 {
        let both = [StockCache::open("memory").await.unwrap(), StockCache::open(&redis.url()).await.unwrap()];
        both[1].forget().await.unwrap();
        let mut dice = Dice(seed);
        for nth in 0..200 {
            let throw = dice.below(u64::MAX >> 33);
            let [local, shared] = [done(&both[0], Dice(throw)).await, done(&both[1], Dice(throw)).await];
            assert_eq!(local, shared, "seed {seed}, step {nth}");
            assert_eq!(held(&both[0]).await, held(&both[1]).await, "seed {seed}, step {nth}");
        }
    }
}

/// Both, one after the other, with one item.
async fn each() -> (RedisServer, [StockCache; 2]) {
    let redis = RedisServer::start().unwrap();
    let both = [StockCache::open("memory").await.unwrap(), StockCache::open(&redis.url()).await.unwrap()];
    for cache in &both {
        cache.begin_anew(STOCK).await.unwrap();
    }
    (redis, both)
}

/// The sweeper reads all reservations and then goes through them. Meanwhile a buyer may have come again.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_list_of_reservations_ends_none_that_is_wanted_again() {
    let (_redis, both) = each().await;
    let alice = purchase("alice", "k");
    for cache in &both {
        assert_eq!(cache.reserve(&alice, 10, false).await.unwrap(), Reserved::Taken);
        let [Reservation { stage: Stage::Since(10), .. }] = held(cache).await[..] else { panic!("made at 10") };
        assert_eq!(cache.reserve(&alice, 60, false).await.unwrap(), Reserved::Before);
        assert!(!cache.begin_end(&alice, 50).await.unwrap(), "asked for again at 60");
        assert_eq!(cache.queued(&alice).await.unwrap(), Queued::Kept);
        assert!(!cache.begin_end(&alice, 100).await.unwrap(), "in the queue");
        assert_eq!(cache.reserve(&alice, 70, false).await.unwrap(), Reserved::Before);
        assert_eq!(held(cache).await[0].stage, Stage::Queued);
    }
}

/// Once it is being given back, nobody is told that it holds; until the database has decided, nobody else gets the item.
#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_is_given_back_is_promised_to_nobody() {
    let (_redis, both) = each().await;
    let (alice, bob) = (purchase("alice", "k"), purchase("bob", "k"));
    for cache in &both {
        cache.reserve(&alice, 10, false).await.unwrap();
        assert!(cache.begin_end(&alice, 10).await.unwrap());
        assert!(!cache.begin_end(&alice, 10).await.unwrap(), "begun once");
        assert_eq!(cache.queued(&alice).await.unwrap(), Queued::Ending);
        assert_eq!(cache.reserve(&alice, 20, false).await.unwrap(), Reserved::Ending);
        assert_eq!(cache.reserve(&bob, 20, false).await.unwrap(), Reserved::Shut(Shut::SoldOut));
        cache.settled(&alice, false, STOCK).await.unwrap();
        assert_eq!(cache.queued(&alice).await.unwrap(), Queued::Gone);
        assert_eq!(cache.reserve(&alice, 20, false).await.unwrap(), Reserved::Shut(Shut::Unsure { has: None }));
        assert_eq!(cache.reserve(&bob, 20, false).await.unwrap(), Reserved::Taken);
        // The consumer may be quicker than the door.
        cache.settled(&bob, true, Stock { left: 0, version: 6 }).await.unwrap();
        assert_eq!(cache.queued(&bob).await.unwrap(), Queued::Kept);
    }
}

/// A trace stays until everybody who left it is known to have bought nothing.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_let_through_is_answered_by_the_database() {
    let (_redis, both) = each().await;
    let alice = purchase("alice", "k");
    let unsure = Look::Shut(Shut::Unsure { has: None });
    for cache in &both {
        assert_eq!(cache.look(&alice, false).await.unwrap(), Look::Open(STOCK));
        assert_eq!(cache.look(&alice, false).await.unwrap(), unsure);
        assert_eq!(cache.look(&alice, true).await.unwrap(), Look::Open(STOCK), "let through twice");
        cache.seen(Stock { left: 0, version: 6 }).await.unwrap();
        cache.bought_nothing(&alice).await.unwrap();
        assert_eq!(cache.look(&alice, false).await.unwrap(), unsure, "the other may have bought");
        cache.bought_nothing(&alice).await.unwrap();
        assert_eq!(cache.look(&alice, false).await.unwrap(), Look::Shut(Shut::SoldOut));
    }
}

/// What is told to a cache that was lost does not make it whole: it would know of one order and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_cache_lets_nobody_through_until_it_is_rebuilt() {
    let (_redis, both) = each().await;
    let (alice, bob) = (purchase("alice", "k"), purchase("bob", "k"));
    for cache in &both {
        cache.forget().await.unwrap();
        cache.seen(STOCK).await.unwrap();
        cache.settled(&alice, true, Stock { left: 3, version: 7 }).await.unwrap();
        assert_eq!(cache.look(&bob, false).await.unwrap(), Look::Shut(Shut::NotWhole));
        assert_eq!(cache.reserve(&bob, 0, false).await.unwrap(), Reserved::Shut(Shut::NotWhole));
        // The rebuild saw an older stock than the one it was told meanwhile.
        cache.declare_whole(Stock { left: 4, version: 6 }).await.unwrap();
        assert_eq!(cache.look(&bob, false).await.unwrap(), Look::Open(Stock { left: 3, version: 7 }));
    }
}
