//! Two processes that sell the same items: one stock, one threshold.

use std::time::Instant;

use sluicegate_flash_sale::drive::{Scene, Target};
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::process::Process;
use crate::support::{Folder, PER_SECOND, rules, sold_out};

/// Two processes with everything in common, and where their buyers go.
fn two(folder: &Folder, parts: &[(&str, &str)]) -> ([Process; 2], Target) {
    let options = folder.options(&rules(), "40/s", parts);
    let shops = [Process::start(&options), Process::start(&options)];
    let each = |address: fn(&Process) -> &str| shops.iter().map(|shop| address(shop).to_owned()).collect();
    let target = Target { shops: each(Process::url), gateways: each(Process::gateway) };
    (shops, target)
}

/// Buyers go to both in turn. Of the limited steps the two together let in what one would.
async fn one_threshold(target: &Target, scene: Scene) {
    let begun = Instant::now();
    let sales = sold_out(target, scene).await;
    let let_in: u32 = sales.iter().map(|tally| tally.crowd.buyers - tally.limited).sum();
    // From before the first buyer to after the last: no shorter than the time in which they were let in.
    let most = 1.0 + f64::from(PER_SECOND) * begun.elapsed().as_secs_f64();
    assert!(f64::from(let_in) <= most, "{let_in} were let in, at most {most} may be: {sales:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_on_one_redis_sell_what_there_is() {
    let (redis, folder) = (RedisServer::start().unwrap(), Folder::new());
    let url = redis.url();
    let (_shops, target) = two(&folder, &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
    for scene in [Scene::Shop(Step::Plain), Scene::Shop(Step::Lock), Scene::Shop(Step::Cache)] {
        sold_out(&target, scene).await;
    }
    for scene in [Scene::Shop(Step::Limit), Scene::Gateway, Scene::Shop(Step::Queue)] {
        one_threshold(&target, scene).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_on_mariadb_and_rabbitmq_sell_what_there_is() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let folder = Folder::new();
    let (url, database, queue) = (redis.url(), mariadb.url(), rabbit.url());
    let parts = [("--cache", url.as_str()), ("--limits", &url), ("--database", &database), ("--queue", &queue)];
    let (_shops, target) = two(&folder, &parts);
    for scene in [Scene::Shop(Step::Plain), Scene::Shop(Step::Cache)] {
        sold_out(&target, scene).await;
    }
    for scene in [Scene::Shop(Step::Limit), Scene::Shop(Step::Queue)] {
        one_threshold(&target, scene).await;
    }
}
