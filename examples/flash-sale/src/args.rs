//! Command-line arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sluicegate_flash_sale::drive::{Crowd, Scenario};
use sluicegate_flash_sale::shop::ShopSettings;

/// Flash sale on a real database, in six steps: ten items, five hundred buyers, five seconds.
#[derive(Debug, Parser)]
#[command(name = "sluicegate-flash-sale", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open a shop, run every step and print a table; fails if an invariant is violated
    Run(RunArgs),
    /// Run the shop with gateway and dashboard until it is interrupted
    Shop(ShopArgs),
    /// Send buyers to a running shop
    Drive(DriveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) backends: BackendArgs,
    #[command(flatten)]
    pub(crate) crowd: CrowdArguments,
    /// Run only this step; may be repeated
    #[arg(long = "step", value_name = "STEP")]
    pub(crate) steps: Vec<Scenario>,
    /// Listen address of the dashboard; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) dashboard: SocketAddr,
    /// Output file of the plot
    #[arg(long, default_value = "target/flash-sale/sale.svg", value_name = "FILE")]
    pub(crate) plot: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ShopArgs {
    #[command(flatten)]
    pub(crate) backends: BackendArgs,
    /// Listen address of the shop; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Listen address of the gateway
    #[arg(long, default_value = "127.0.0.1:3001", value_name = "ADDRESS")]
    pub(crate) gateway: SocketAddr,
    /// Listen address of the dashboard
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    pub(crate) dashboard: SocketAddr,
    /// Start a new sale with this number of items; by default, the last sale continues
    #[arg(long)]
    pub(crate) items: Option<u32>,
    /// Do not consume orders from the queue; another process does
    #[arg(long)]
    pub(crate) no_consumer: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DriveArgs {
    #[command(flatten)]
    pub(crate) crowd: CrowdArguments,
    /// URL of the shop; repeat for several shops that sell the same items
    #[arg(long = "shop", default_value = "http://127.0.0.1:3000", value_name = "URL")]
    pub(crate) shops: Vec<String>,
    /// URL of the gateway; repeat for several gateways
    #[arg(long = "gateway", default_value = "http://127.0.0.1:3001", value_name = "URL")]
    pub(crate) gateways: Vec<String>,
    /// Run only this step; may be repeated
    #[arg(long = "step", value_name = "STEP")]
    pub(crate) steps: Vec<Scenario>,
}

/// Backends of the shop.
#[derive(Debug, Args)]
pub(crate) struct BackendArgs {
    /// Database: sqlite:FILE, or mysql://USER:PASSWORD@HOST:PORT/DATABASE for MariaDB and MySQL
    #[arg(long, default_value = "sqlite:target/flash-sale/sale.db", value_name = "URL")]
    database: String,
    /// Stock cache: `memory`, or redis://HOST:PORT for several shops
    #[arg(long, default_value = "memory", value_name = "URL")]
    cache: String,
    /// Order queue: journal:FILE, amqp://HOST:PORT/VHOST or redis://HOST:PORT
    #[arg(long, default_value = "journal:target/flash-sale/orders.journal", value_name = "URL")]
    queue: String,
    /// Store of the limits: `memory`, or redis://HOST:PORT for several shops
    #[arg(long, default_value = "memory", value_name = "URL")]
    pub(crate) limits: String,
    /// Rule file with `rules`, `lists` and `headers`; replaces the built-in rules
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Maximum rate of orders from the queue to the database
    #[arg(long, default_value = "20/s", value_name = "RATE")]
    consumer_rate: String,
    /// Time a buyer has to pay
    #[arg(long, default_value = "900", value_parser = seconds, value_name = "SECONDS")]
    payment_window: Duration,
    /// Time a reservation is kept while its order is not known to be in the queue
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    reservation_window: Duration,
    /// Idle time after which the orders of a consumer of the Redis stream are claimed by another one
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    claim_after: Duration,
}

/// Number and arrival rate of the buyers.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CrowdArguments {
    /// Number of buyers
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    buyers: u32,
    /// Time over which the buyers arrive
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Number of items on sale
    #[arg(long = "items", default_value_t = 10)]
    items: u32,
}

impl BackendArgs {
    pub(crate) fn settings(&self) -> ShopSettings {
        ShopSettings {
            database: self.database.clone(),
            cache: self.cache.clone(),
            queue: self.queue.clone(),
            consumer_rate: self.consumer_rate.clone(),
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

/// Returns all scenarios if none is selected.
pub(crate) fn scenarios_or_all(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    if scenarios.is_empty() { Scenario::ALL.to_vec() } else { scenarios }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
