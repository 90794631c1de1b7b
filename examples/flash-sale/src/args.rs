//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sluicegate_flash_sale::drive::{Crowd, Scene};
use sluicegate_flash_sale::shop::ShopSettings;

/// A flash sale: ten items, five hundred buyers, five seconds; step by step, on a real database.
#[derive(Debug, Parser)]
#[command(name = "sluicegate-flash-sale", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Opens a shop, sends the crowd through every step, and prints one table; fails if a promise is broken
    Run(Run),
    /// Opens the shop with gateway and dashboard, until it is interrupted
    Shop(Shop),
    /// Sends the crowd to a shop that is open
    Drive(Drive),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) parts: Parts,
    #[command(flatten)]
    pub(crate) crowd: CrowdArguments,
    /// Only these steps
    #[arg(long = "step", value_name = "STEP")]
    pub(crate) steps: Vec<Scene>,
    /// Where the dashboard listens; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) dashboard: SocketAddr,
    /// Where the plot is written
    #[arg(long, default_value = "target/flash-sale/sale.svg", value_name = "FILE")]
    pub(crate) plot: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Shop {
    #[command(flatten)]
    pub(crate) parts: Parts,
    /// Where the shop listens; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Where the gateway before it listens
    #[arg(long, default_value = "127.0.0.1:3001", value_name = "ADDRESS")]
    pub(crate) gateway: SocketAddr,
    /// Where the dashboard listens
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    pub(crate) dashboard: SocketAddr,
    /// Begins a new sale of so many items; without it, the last one goes on
    #[arg(long)]
    pub(crate) items: Option<u32>,
    /// Leaves the orders in the queue to another process
    #[arg(long)]
    pub(crate) no_consumer: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Drive {
    #[command(flatten)]
    pub(crate) crowd: CrowdArguments,
    /// The shop; several times, if several sell the same items
    #[arg(long = "shop", default_value = "http://127.0.0.1:3000", value_name = "URL")]
    pub(crate) shops: Vec<String>,
    /// The gateway before it; several times, if there are several
    #[arg(long = "gateway", default_value = "http://127.0.0.1:3001", value_name = "URL")]
    pub(crate) gateways: Vec<String>,
    /// Only these steps
    #[arg(long = "step", value_name = "STEP")]
    pub(crate) steps: Vec<Scene>,
}

/// Where the parts of the shop are.
#[derive(Debug, Args)]
pub(crate) struct Parts {
    /// sqlite:FILE, or mysql://USER:PASSWORD@HOST:PORT/DATABASE for MariaDB and MySQL
    #[arg(long, default_value = "sqlite:target/flash-sale/sale.db", value_name = "URL")]
    database: String,
    /// `memory`, or redis://HOST:PORT for several shops
    #[arg(long, default_value = "memory", value_name = "URL")]
    cache: String,
    /// journal:FILE, amqp://HOST:PORT/VHOST or redis://HOST:PORT
    #[arg(long, default_value = "journal:target/flash-sale/orders.journal", value_name = "URL")]
    queue: String,
    /// Where limits are counted: `memory`, or redis://HOST:PORT for several shops
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) limits: String,
    /// A file with other rules: `rules`, `lists` and `headers`
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// How many orders the consumer brings to the database
    #[arg(long, default_value = "20/s", value_name = "RATE")]
    pace: String,
    /// How long a buyer may take to pay
    #[arg(long, default_value = "900", value_parser = seconds, value_name = "SECONDS")]
    payment_window: Duration,
    /// How long a reservation is kept whose order is not surely in the queue
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    reservation_window: Duration,
    /// How long a consumer of the stream in Redis may be silent before its orders go to another
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    claim_after: Duration,
}

/// Who comes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CrowdArguments {
    /// Buyers
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    buyers: u32,
    /// Over how long they come
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Items on sale
    #[arg(long = "items", default_value_t = 10)]
    items: u32,
}

impl Parts {
    pub(crate) fn settings(&self) -> ShopSettings {
        ShopSettings {
            database: self.database.clone(),
            cache: self.cache.clone(),
            queue: self.queue.clone(),
            pace: self.pace.clone(),
            payment_window: self.payment_window,
            reservation_window: self.reservation_window,
            claim_after: self.claim_after,
        }
    }
}

impl From<CrowdArguments> for Crowd {
    fn from(arguments: CrowdArguments) -> Self {
        let CrowdArguments { buyers, seconds, items } = arguments;
        Self { buyers, over: seconds, items }
    }
}

/// All steps, if none are named.
pub(crate) fn chosen(steps: Vec<Scene>) -> Vec<Scene> {
    if steps.is_empty() { Scene::ALL.to_vec() } else { steps }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
