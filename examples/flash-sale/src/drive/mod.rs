//! The buyers.
//!
//! They come in an open loop: each at its moment, however slow the shop is with those before. So a shop that stalls
//! is charged for everybody who had to wait, from the moment they came. Nobody tries twice.

mod plot;
mod promises;
mod scene;
mod table;

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use plot::plot;
pub use promises::broken_promises;
pub use scene::{Scene, UnknownScene};
pub use table::table;

use crate::database::Books;
use crate::house::Addresses;
use crate::order::{Order, State};

/// How long a buyer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often those who wait ask what has become of their order.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many come.
    pub buyers: u32,
    /// Over how long, evenly.
    pub over: Duration,
    /// For how many items.
    pub items: u32,
}

impl Crowd {
    /// That of the sale whose figures stand beside ours.
    pub const ORIGINAL: Self = Self { buyers: 500, over: Duration::from_secs(5), items: 10 };
}

/// Where a crowd goes: to one process, or to several in turn that sell the same items.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The shops.
    pub shops: Vec<String>,
    /// The gateways before them.
    pub gateways: Vec<String>,
}

impl Target {
    /// A process of which these are the addresses.
    #[must_use]
    pub fn and(mut self, addresses: Addresses) -> Self {
        self.shops.push(format!("http://{}", addresses.shop));
        self.gateways.push(format!("http://{}", addresses.gateway));
        self
    }
}

/// Why there was no sale.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The shop does not answer.
    #[error("the shop does not answer as it should: {0}; is it running, and is its address right?")]
    Shop(#[from] reqwest::Error),
    /// Nowhere to go.
    #[error("name at least one shop and one gateway")]
    Nowhere,
    /// Somebody was told to wait, and never heard.
    #[error("the order {order} was accepted and still has no result after {PATIENCE:?}")]
    Unanswered {
        /// The order.
        order: String,
    },
}

/// What became of a buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Bought,
    /// Accepted, under this order.
    Later(String),
    LostRace,
    SoldOut,
    Limited,
    Other(String),
}

/// A sale.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Which.
    pub scene: Scene,
    /// For whom.
    pub crowd: Crowd,
    /// Buyers who have an item, by what they were told.
    pub bought: u32,
    /// Buyers who were told that somebody else was faster.
    pub lost_race: u32,
    /// Buyers who were told that nothing is left.
    pub sold_out: u32,
    /// Buyers who were refused by a limit.
    pub limited: u32,
    /// What else buyers were told.
    pub other: Vec<String>,
    /// Half of them had their answer within.
    pub p50: Duration,
    /// Ninety-nine of a hundred had.
    pub p99: Duration,
    /// The shop's books afterwards.
    pub books: Books,
}

impl Tally {
    /// How many updates of the stock the original needed, if this is comparable.
    fn original(&self) -> Option<u32> {
        self.scene.original().filter(|_| self.crowd == Crowd::ORIGINAL)
    }
}

/// Puts items on sale and sends a crowd.
pub async fn drive(target: &Target, scene: Scene, crowd: Crowd) -> Result<Tally, DriveError> {
    let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
    for shop in &target.shops {
        let restocked = client.put(format!("{shop}/stock")).json(&json!({ "items": crowd.items })).send().await?;
        restocked.error_for_status()?;
    }
    let urls = scene.urls(target);
    let mut buyers = JoinSet::new();
    let start = Instant::now();
    for (nth, url) in (0..crowd.buyers).zip(urls.iter().cycle()) {
        let due = start + crowd.over.mul_f64(f64::from(nth) / f64::from(crowd.buyers.max(1)));
        sleep_until(due).await;
        buyers.spawn(visit(client.clone(), url.clone(), format!("buyer-{nth}"), due));
    }
    let visits = buyers.join_all().await;
    let (mut fates, mut waits): (Vec<Fate>, Vec<Duration>) = visits.into_iter().unzip();
    for fate in &mut fates {
        if let Fate::Later(order) = fate {
            *fate = result(&client, target, order).await?;
        }
    }
    let books = books(&client, target).await?;
    waits.sort_unstable();
    let count = |wanted: &Fate| u32::try_from(fates.iter().filter(|fate| *fate == wanted).count()).unwrap_or(u32::MAX);
    Ok(Tally {
        scene,
        crowd,
        bought: count(&Fate::Bought),
        lost_race: count(&Fate::LostRace),
        sold_out: count(&Fate::SoldOut),
        limited: count(&Fate::Limited),
        p50: percentile(&waits, 0.50),
        p99: percentile(&waits, 0.99),
        other: fates
            .into_iter()
            .filter_map(|fate| if let Fate::Other(what) = fate { Some(what) } else { None })
            .collect(),
        books,
    })
}

async fn visit(client: Client, url: String, buyer: String, due: Instant) -> (Fate, Duration) {
    let fate = ask(&client, &url, &buyer).await.unwrap_or_else(|error| Fate::Other(error.to_string()));
    (fate, due.elapsed())
}

async fn ask(client: &Client, url: &str, buyer: &str) -> Result<Fate, reqwest::Error> {
    #[derive(Deserialize)]
    struct Title {
        title: String,
    }
    let answer = client.post(url).json(&json!({ "buyer": buyer })).send().await?;
    Ok(match answer.status() {
        StatusCode::CREATED => Fate::Bought,
        StatusCode::ACCEPTED => Fate::Later(answer.json::<Order>().await?.id),
        StatusCode::GONE => Fate::SoldOut,
        StatusCode::TOO_MANY_REQUESTS => Fate::Limited,
        status => match answer.json::<Title>().await {
            Ok(Title { title }) if title == "lost-race" => Fate::LostRace,
            Ok(Title { title }) => Fate::Other(format!("{status} {title}")),
            Err(_) => Fate::Other(status.to_string()),
        },
    })
}

/// The books, which all shops share, with the statements of each.
async fn books(client: &Client, target: &Target) -> Result<Books, DriveError> {
    let mut all: Option<Books> = None;
    for shop in &target.shops {
        let books: Books = client.get(format!("{shop}/stock")).send().await?.error_for_status()?.json().await?;
        let (statements, stock_updates) = all.map_or((0, 0), |all| (all.statements, all.stock_updates));
        all = Some(Books {
            statements: statements + books.statements,
            stock_updates: stock_updates + books.stock_updates,
            ..books
        });
    }
    all.ok_or(DriveError::Nowhere)
}

/// What becomes of an order that is on its way.
async fn result(client: &Client, target: &Target, order: &str) -> Result<Fate, DriveError> {
    let shop = target.shops.first().ok_or(DriveError::Nowhere)?;
    let url = format!("{shop}/orders/{order}");
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let order: Order = client.get(&url).send().await?.error_for_status()?.json().await?;
        match order.state {
            State::Waiting => sleep(ASK_EVERY).await,
            state if state.holds_an_item() => return Ok(Fate::Bought),
            State::Refused => return Ok(Fate::SoldOut),
            state => return Ok(Fate::Other(format!("the order is {state}"))),
        }
    }
    Err(DriveError::Unanswered { order: order.to_owned() })
}

/// The wait within which so large a part of them, which are in order, had their answer.
fn percentile(waits: &[Duration], part: f64) -> Duration {
    let rank = (waits.len() as f64 * part).ceil() as usize;
    waits.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
