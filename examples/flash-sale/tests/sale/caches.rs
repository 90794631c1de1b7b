//! The in-memory cache and the Redis cache behave identically for random sequences of operations.

use sluicegate_flash_sale::Purchase;
use sluicegate_flash_sale::cache::{
    BlockReason, QueuedReservation, Reservation, ReservationStage, ReserveResult, StockCache, StockLookup,
};
use sluicegate_flash_sale::database::Stock;
use sluicegate_testkit::random::SplitMix64;
use sluicegate_testkit::servers::RedisServer;

const STOCK: Stock = Stock { left: 1, version: 5 };

fn purchase(buyer: &str, key: &str) -> Purchase {
    Purchase::new(buyer, key).unwrap()
}

/// Runs a random operation and returns its result as text.
async fn random_operation(cache: &StockCache, mut rng: SplitMix64) -> String {
    let buyer = ["alice", "bob", "carol"][usize::try_from(rng.below(3)).unwrap()];
    let purchase = purchase(buyer, ["k", "l"][usize::try_from(rng.below(2)).unwrap()]);
    let now = i64::try_from(rng.below(10)).unwrap();
    let stock = Stock { left: i64::try_from(rng.below(4)).unwrap(), version: i64::try_from(rng.below(1_000)).unwrap() };
    let flag = rng.below(2) == 1;
    match rng.below(40) {
        0 => format!("{:?}", cache.clear().await.unwrap()),
        1 => format!("{:?}", cache.start_sale(stock).await.unwrap()),
        2..=4 => format!("{:?}", cache.mark_complete(stock).await.unwrap()),
        5..=6 => format!("{:?}", cache.update_stock(stock).await.unwrap()),
        7..=12 => format!("{:?}", cache.lookup(&purchase, flag).await.unwrap()),
        13..=14 => format!("{:?}", cache.remove_trace(&purchase).await.unwrap()),
        15..=22 => format!("{:?}", cache.reserve(&purchase, now, flag).await.unwrap()),
        23..=26 => format!("{:?}", cache.mark_queued(&purchase).await.unwrap()),
        27..=29 => format!("{:?}", cache.begin_expiry(&purchase, now).await.unwrap()),
        30 => format!("{:?}", cache.restore_reservation(&purchase).await.unwrap()),
        31..=35 => format!("{:?}", cache.settle_order(&purchase, flag, stock).await.unwrap()),
        36..=37 => format!("{:?}", cache.clear_order(buyer, &purchase.order_id()).await.unwrap()),
        38 => format!("{:?}", cache.version().await.unwrap()),
        _ => format!("{:?}", cache.is_reserved(&purchase.order_id()).await.unwrap()),
    }
}

async fn sorted_reservations(cache: &StockCache) -> Vec<Reservation> {
    let mut reservations = cache.reservations().await.unwrap();
    reservations.sort_by_key(|reservation| reservation.purchase.order_id());
    reservations
}

#[tokio::test(flavor = "multi_thread")]
async fn both_caches_behave_identically() {
    let redis = RedisServer::start().unwrap();
    for seed in 0..20 {
        let both = [StockCache::open("memory").await.unwrap(), StockCache::open(&redis.url()).await.unwrap()];
        both[1].clear().await.unwrap();
        let mut rng = SplitMix64::new(seed);
        for index in 0..200 {
            let operation = rng.below(u64::MAX >> 33);
            let [local, shared] = [
                random_operation(&both[0], SplitMix64::new(operation)).await,
                random_operation(&both[1], SplitMix64::new(operation)).await,
            ];
            assert_eq!(local, shared, "seed {seed}, step {index}");
            assert_eq!(
                sorted_reservations(&both[0]).await,
                sorted_reservations(&both[1]).await,
                "seed {seed}, step {index}"
            );
        }
    }
}

/// Both caches with one item in stock.
async fn both_caches() -> (RedisServer, [StockCache; 2]) {
    let redis = RedisServer::start().unwrap();
    let both = [StockCache::open("memory").await.unwrap(), StockCache::open(&redis.url()).await.unwrap()];
    for cache in &both {
        cache.start_sale(STOCK).await.unwrap();
    }
    (redis, both)
}

/// The sweeper reads the list of reservations first. A buyer may renew one of them before the sweeper handles it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_reservation_list_expires_no_renewed_reservation() {
    let (_redis, both) = both_caches().await;
    let alice = purchase("alice", "k");
    for cache in &both {
        assert_eq!(cache.reserve(&alice, 10, false).await.unwrap(), ReserveResult::New);
        let [Reservation { stage: ReservationStage::Since(10), .. }] = sorted_reservations(cache).await[..] else {
            panic!("reserved at 10")
        };
        assert_eq!(cache.reserve(&alice, 60, false).await.unwrap(), ReserveResult::Existing);
        assert!(!cache.begin_expiry(&alice, 50).await.unwrap(), "renewed at 60");
        assert_eq!(cache.mark_queued(&alice).await.unwrap(), QueuedReservation::Kept);
        assert!(!cache.begin_expiry(&alice, 100).await.unwrap(), "queued");
        assert_eq!(cache.reserve(&alice, 70, false).await.unwrap(), ReserveResult::Existing);
        assert_eq!(sorted_reservations(cache).await[0].stage, ReservationStage::Queued);
    }
}

/// An expiring reservation is not confirmed, and its item is not available until the database has ended the order.
#[tokio::test(flavor = "multi_thread")]
async fn an_expiring_reservation_is_not_confirmed_to_any_buyer() {
    let (_redis, both) = both_caches().await;
    let (alice, bob) = (purchase("alice", "k"), purchase("bob", "k"));
    for cache in &both {
        cache.reserve(&alice, 10, false).await.unwrap();
        assert!(cache.begin_expiry(&alice, 10).await.unwrap());
        assert!(!cache.begin_expiry(&alice, 10).await.unwrap(), "already started");
        assert_eq!(cache.mark_queued(&alice).await.unwrap(), QueuedReservation::Expiring);
        assert_eq!(cache.reserve(&alice, 20, false).await.unwrap(), ReserveResult::Expiring);
        assert_eq!(cache.reserve(&bob, 20, false).await.unwrap(), ReserveResult::Blocked(BlockReason::SoldOut));
        cache.settle_order(&alice, false, STOCK).await.unwrap();
        assert_eq!(cache.mark_queued(&alice).await.unwrap(), QueuedReservation::Gone);
        assert_eq!(
            cache.reserve(&alice, 20, false).await.unwrap(),
            ReserveResult::Blocked(BlockReason::CheckDatabase { known_order: None })
        );
        assert_eq!(cache.reserve(&bob, 20, false).await.unwrap(), ReserveResult::New);
        // The consumer may place the order before the reservation is marked as queued.
        cache.settle_order(&bob, true, Stock { left: 0, version: 6 }).await.unwrap();
        assert_eq!(cache.mark_queued(&bob).await.unwrap(), QueuedReservation::Kept);
    }
}

/// A trace stays until all requests that left it are known to have failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_traced_order_is_always_checked_in_the_database() {
    let (_redis, both) = both_caches().await;
    let alice = purchase("alice", "k");
    let check_database = StockLookup::Blocked(BlockReason::CheckDatabase { known_order: None });
    for cache in &both {
        assert_eq!(cache.lookup(&alice, false).await.unwrap(), StockLookup::Available(STOCK));
        assert_eq!(cache.lookup(&alice, false).await.unwrap(), check_database);
        assert_eq!(cache.lookup(&alice, true).await.unwrap(), StockLookup::Available(STOCK), "passed twice");
        cache.update_stock(Stock { left: 0, version: 6 }).await.unwrap();
        cache.remove_trace(&alice).await.unwrap();
        assert_eq!(cache.lookup(&alice, false).await.unwrap(), check_database, "the other request may have succeeded");
        cache.remove_trace(&alice).await.unwrap();
        assert_eq!(cache.lookup(&alice, false).await.unwrap(), StockLookup::Blocked(BlockReason::SoldOut));
    }
}

/// Updates do not make a lost cache complete: it would know one order and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_cache_blocks_buyers_until_rebuilt() {
    let (_redis, both) = both_caches().await;
    let (alice, bob) = (purchase("alice", "k"), purchase("bob", "k"));
    for cache in &both {
        cache.clear().await.unwrap();
        cache.update_stock(STOCK).await.unwrap();
        cache.settle_order(&alice, true, Stock { left: 3, version: 7 }).await.unwrap();
        assert_eq!(cache.lookup(&bob, false).await.unwrap(), StockLookup::Blocked(BlockReason::Incomplete));
        assert_eq!(cache.reserve(&bob, 0, false).await.unwrap(), ReserveResult::Blocked(BlockReason::Incomplete));
        // The rebuild has read an older stock than that of a concurrent update.
        cache.mark_complete(Stock { left: 4, version: 6 }).await.unwrap();
        assert_eq!(cache.lookup(&bob, false).await.unwrap(), StockLookup::Available(Stock { left: 3, version: 7 }));
    }
}
