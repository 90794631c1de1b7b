//! Two processes that sell the same items: one stock, one shared limit.

use std::time::Instant;

use sluicegate_flash_sale::drive::{Scenario, Target};
use sluicegate_flash_sale::shop::Step;
use sluicegate_testkit::servers::{MariaDb, RabbitMq, RedisServer};

use crate::process::ShopProcess;
use crate::support::{PER_SECOND, TempDir, rules, run_until_sold_out};

/// Starts two processes with the same backends.
fn start_two(dir: &TempDir, backends: &[(&str, &str)]) -> ([ShopProcess; 2], Target) {
    let options = dir.options(&rules(), "40/s", backends);
    let shops = [ShopProcess::start(&options), ShopProcess::start(&options)];
    let each = |address: fn(&ShopProcess) -> &str| shops.iter().map(|shop| address(shop).to_owned()).collect();
    let target = Target { shops: each(ShopProcess::url), gateways: each(ShopProcess::gateway) };
    (shops, target)
}

/// Sends buyers to both processes alternately and asserts that together they admit no more than the limit.
async fn assert_shared_limit(target: &Target, scenario: Scenario) {
    let started = Instant::now();
    let sales = run_until_sold_out(target, scenario).await;
    let admitted: u32 = sales.iter().map(|report| report.crowd.buyers - report.limited).sum();
    // Measured from before the first request to after the last: an upper bound of the admission time.
    let max = 1.0 + f64::from(PER_SECOND) * started.elapsed().as_secs_f64();
    assert!(f64::from(admitted) <= max, "{admitted} admitted, the maximum is {max}: {sales:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_redis_never_oversell() {
    let (redis, dir) = (RedisServer::start().unwrap(), TempDir::new());
    let url = redis.url();
    let (_shops, target) = start_two(&dir, &[("--cache", &url), ("--limits", &url), ("--queue", &url)]);
    for scenario in [Scenario::Shop(Step::Plain), Scenario::Shop(Step::Lock), Scenario::Shop(Step::Cache)] {
        run_until_sold_out(&target, scenario).await;
    }
    for scenario in [Scenario::Shop(Step::Limit), Scenario::Gateway, Scenario::Shop(Step::Queue)] {
        assert_shared_limit(&target, scenario).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_mariadb_and_rabbitmq_never_oversell() {
    let (redis, mariadb, rabbit) =
        (RedisServer::start().unwrap(), MariaDb::start().unwrap(), RabbitMq::start().unwrap());
    let dir = TempDir::new();
    let (url, database, queue) = (redis.url(), mariadb.url(), rabbit.url());
    let backends = [("--cache", url.as_str()), ("--limits", &url), ("--database", &database), ("--queue", &queue)];
    let (_shops, target) = start_two(&dir, &backends);
    for scenario in [Scenario::Shop(Step::Plain), Scenario::Shop(Step::Cache)] {
        run_until_sold_out(&target, scenario).await;
    }
    for scenario in [Scenario::Shop(Step::Limit), Scenario::Shop(Step::Queue)] {
        assert_shared_limit(&target, scenario).await;
    }
}
