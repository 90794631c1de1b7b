//! Two processes that sell the same items: one stock, one threshold.

use std::time::Instant;

use sluicegate_flash_sale::drive::{Scene, Target};
use sluicegate_flash_sale::house::{House, HouseSettings};
use sluicegate_flash_sale::shop::{ShopSettings, Step};
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::support::{CROWD, Folder, PER_SECOND, house, open, sold_out};

/// Two houses with everything in common but their process.
async fn two(shop: ShopSettings, redis: &RedisServer) -> ([House; 2], Target) {
    let settings = HouseSettings { limits: redis.url(), ..house(ShopSettings { cache: redis.url(), ..shop }) };
    let houses = [open(settings.clone()).await, open(settings).await];
    let target = Target::default().and(houses[0].addresses()).and(houses[1].addresses());
    (houses, target)
}

/// Buyers go to both in turn. Of the limited steps the two together let in what one would.
async fn one_threshold(target: &Target, scene: Scene) {
    let begun = Instant::now();
    let tally = sold_out(target, scene).await;
    let let_in = CROWD.buyers - tally.limited;
    // From before the first buyer to after the last: no shorter than the time in which they were let in.
    let most = 1.0 + f64::from(PER_SECOND) * begun.elapsed().as_secs_f64();
    assert!(f64::from(let_in) <= most, "{let_in} were let in, at most {most} may be: {tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_on_one_redis_sell_what_there_is() {
    let (redis, folder) = (RedisServer::start().unwrap(), Folder::new());
    let (houses, target) = two(ShopSettings { queue: redis.url(), ..folder.shop() }, &redis).await;
    for scene in [Scene::Shop(Step::Plain), Scene::Shop(Step::Lock), Scene::Shop(Step::Cache)] {
        sold_out(&target, scene).await;
    }
    for scene in [Scene::Shop(Step::Limit), Scene::Gateway, Scene::Shop(Step::Queue)] {
        one_threshold(&target, scene).await;
    }
    for house in houses {
        house.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_on_mariadb_and_rabbitmq_sell_what_there_is() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let folder = Folder::new();
    let shop = ShopSettings { database: mariadb.url(), queue: rabbit.url(), ..folder.shop() };
    let (houses, target) = two(shop, &redis).await;
    for scene in [Scene::Shop(Step::Plain), Scene::Shop(Step::Cache)] {
        sold_out(&target, scene).await;
    }
    for scene in [Scene::Shop(Step::Limit), Scene::Shop(Step::Queue)] {
        one_threshold(&target, scene).await;
    }
    for house in houses {
        house.close().await;
    }
}
