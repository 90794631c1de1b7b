//! Load generator: sends buyers to the shop.
//!
//! An open loop: each buyer arrives at its scheduled time, independent of earlier responses. Response times count from
//! the scheduled time and include all delays of a slow shop. Buyers do not retry.

mod invariants;
mod plot;
mod scenario;
mod table;

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use invariants::violated_invariants;
pub use plot::plot;
pub use scenario::{Scenario, UnknownScenario};
pub use table::table;

use crate::app::Addresses;
use crate::database::SaleTotals;
use crate::order::{Order, OrderState};

/// Request timeout.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Poll interval of queued orders.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Buyers and items of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Number of buyers.
    pub buyers: u32,
    /// Time over which the buyers arrive evenly.
    pub over: Duration,
    /// Number of items.
    pub items: u32,
}

impl Crowd {
    /// Crowd of the original sale.
    pub const REFERENCE: Self = Self { buyers: 500, over: Duration::from_secs(5), items: 10 };
}

/// Processes that receive the load, round-robin. All sell the same items.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// URLs of the shops.
    pub shops: Vec<String>,
    /// URLs of the gateways.
    pub gateways: Vec<String>,
}

impl Target {
    /// Adds a process with these addresses.
    #[must_use]
    pub fn with_process(mut self, addresses: Addresses) -> Self {
        self.shops.push(format!("http://{}", addresses.shop));
        self.gateways.push(format!("http://{}", addresses.gateway));
        self
    }
}

/// Error of a run.
#[derive(Debug, Error)]
pub enum DriveError {
    /// A request failed.
    #[error("request to the shop failed: {0}; check that it is running, and its address")]
    Shop(#[from] reqwest::Error),
    /// No target.
    #[error("at least one shop and one gateway are required")]
    NoTarget,
    /// An accepted order has no result in time.
    #[error("order {order} was accepted but has no result after {REQUEST_TIMEOUT:?}")]
    NoResult {
        /// Order id.
        order: String,
    },
}

/// Result of a buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BuyerResult {
    Bought,
    /// Accepted with this order id.
    Accepted(String),
    LostRace,
    SoldOut,
    Limited,
    Other(String),
}

/// Report of a sale.
#[derive(Clone, Debug)]
pub struct SaleReport {
    /// Scenario of the sale.
    pub scenario: Scenario,
    /// Crowd of the sale.
    pub crowd: Crowd,
    /// Buyers with a confirmed item.
    pub bought: u32,
    /// Buyers that lost a race.
    pub lost_race: u32,
    /// Buyers that got a sold-out response.
    pub sold_out: u32,
    /// Buyers refused by a limit.
    pub limited: u32,
    /// Other responses.
    pub other: Vec<String>,
    /// Median response time.
    pub p50: Duration,
    /// 99th percentile of the response time.
    pub p99: Duration,
    /// Totals of the shop after the sale.
    pub totals: SaleTotals,
}

impl SaleReport {
    /// Number of stock updates in the original sale, if the crowd is the same.
    fn reference_updates(&self) -> Option<u32> {
        self.scenario.reference_updates().filter(|_| self.crowd == Crowd::REFERENCE)
    }
}

/// Starts a new sale, sends the buyers and returns a report.
pub async fn drive(target: &Target, scenario: Scenario, crowd: Crowd) -> Result<SaleReport, DriveError> {
    let client = Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?;
    for shop in &target.shops {
        let restocked = client.put(format!("{shop}/stock")).json(&json!({ "items": crowd.items })).send().await?;
        restocked.error_for_status()?;
    }
    let urls = scenario.urls(target);
    let mut buyers = JoinSet::new();
    let start = Instant::now();
    for (index, url) in (0..crowd.buyers).zip(urls.iter().cycle()) {
        let due = start + crowd.over.mul_f64(f64::from(index) / f64::from(crowd.buyers.max(1)));
        sleep_until(due).await;
        buyers.spawn(timed_purchase(client.clone(), url.clone(), format!("buyer-{index}"), due));
    }
    let (mut results, mut times): (Vec<BuyerResult>, Vec<Duration>) = buyers.join_all().await.into_iter().unzip();
    for result in &mut results {
        if let BuyerResult::Accepted(order) = result {
            *result = poll_order(&client, target, order).await?;
        }
    }
    let totals = fetch_totals(&client, target).await?;
    times.sort_unstable();
    let count = |expected: &BuyerResult| {
        u32::try_from(results.iter().filter(|result| *result == expected).count()).unwrap_or(u32::MAX)
    };
    Ok(SaleReport {
        scenario,
        crowd,
        bought: count(&BuyerResult::Bought),
        lost_race: count(&BuyerResult::LostRace),
        sold_out: count(&BuyerResult::SoldOut),
        limited: count(&BuyerResult::Limited),
        p50: percentile(&times, 0.50),
        p99: percentile(&times, 0.99),
        other: results
            .into_iter()
            .filter_map(|result| if let BuyerResult::Other(response) = result { Some(response) } else { None })
            .collect(),
        totals,
    })
}

async fn timed_purchase(client: Client, url: String, buyer: String, due: Instant) -> (BuyerResult, Duration) {
    let result = send_purchase(&client, &url, &buyer).await;
    (result.unwrap_or_else(|error| BuyerResult::Other(error.to_string())), due.elapsed())
}

async fn send_purchase(client: &Client, url: &str, buyer: &str) -> Result<BuyerResult, reqwest::Error> {
    #[derive(Deserialize)]
    struct Title {
        title: String,
    }
    let response = client.post(url).json(&json!({ "buyer": buyer })).send().await?;
    Ok(match response.status() {
        StatusCode::CREATED => BuyerResult::Bought,
        StatusCode::ACCEPTED => BuyerResult::Accepted(response.json::<Order>().await?.id),
        StatusCode::GONE => BuyerResult::SoldOut,
        StatusCode::TOO_MANY_REQUESTS => BuyerResult::Limited,
        status => match response.json::<Title>().await {
            Ok(Title { title }) if title == "lost-race" => BuyerResult::LostRace,
            Ok(Title { title }) => BuyerResult::Other(format!("{status} {title}")),
            Err(_) => BuyerResult::Other(status.to_string()),
        },
    })
}

/// Fetches the totals: the shops share the database, so only the statements are added up.
async fn fetch_totals(client: &Client, target: &Target) -> Result<SaleTotals, DriveError> {
    let mut sum: Option<SaleTotals> = None;
    for shop in &target.shops {
        let totals: SaleTotals = client.get(format!("{shop}/stock")).send().await?.error_for_status()?.json().await?;
        let (statements, stock_updates) = sum.map_or((0, 0), |sum| (sum.statements, sum.stock_updates));
        sum = Some(SaleTotals {
            statements: statements + totals.statements,
            stock_updates: stock_updates + totals.stock_updates,
            ..totals
        });
    }
    sum.ok_or(DriveError::NoTarget)
}

/// Polls a queued order until it has a result.
async fn poll_order(client: &Client, target: &Target, order: &str) -> Result<BuyerResult, DriveError> {
    let shop = target.shops.first().ok_or(DriveError::NoTarget)?;
    let url = format!("{shop}/orders/{order}");
    let started = Instant::now();
    while started.elapsed() < REQUEST_TIMEOUT {
        let order: Order = client.get(&url).send().await?.error_for_status()?.json().await?;
        match order.state {
            OrderState::Waiting => sleep(POLL_INTERVAL).await,
            state if state.holds_item() => return Ok(BuyerResult::Bought),
            OrderState::Refused => return Ok(BuyerResult::SoldOut),
            state => return Ok(BuyerResult::Other(format!("order {state}"))),
        }
    }
    Err(DriveError::NoResult { order: order.to_owned() })
}

/// Percentile of sorted times.
fn percentile(times: &[Duration], share: f64) -> Duration {
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
