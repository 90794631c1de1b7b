//! The cache of a shop that is several processes.
//!
//! Three hashes with one hash tag, so that they stand together in a Redis Cluster too: the stock, the
//! reservations (order, and since when, or `-` once it is in the queue), and the orders (buyer, and `1` or
//! `0` for whether it lives, and its id). What changes more than one of them, or depends on what it finds, is
//! a script. Nothing has an expiry: what is stale is given back by the shop, with the database as witness.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, Client, RedisResult, Script, ScriptInvocation};

use super::{CacheError, Glance, Known, Reservation, Reserved};
use crate::database::Stock;
use crate::order::Purchase;

const STOCK: &str = "flash-sale:{1}:stock";
const RESERVATIONS: &str = "flash-sale:{1}:reservations";
const ORDERS: &str = "flash-sale:{1}:orders";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The cache. Clones share one connection, which is made again when it breaks.
#[derive(Clone)]
pub struct RedisCache {
    connection: ConnectionManager,
    scripts: Arc<Scripts>,
}

struct Scripts {
    reserve: Script,
    settle: Script,
    queued: Script,
    begin_anew: Script,
}

impl RedisCache {
    pub(super) async fn connect(url: &str) -> RedisResult<Self> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE))
            .set_number_of_retries(2)
            .set_max_delay(Duration::from_millis(500));
        let connection = ConnectionManager::new_with_config(Client::open(url)?, config).await?;
        let scripts = Scripts {
            reserve: Script::new(include_str!("scripts/reserve.lua")),
            settle: Script::new(include_str!("scripts/settle.lua")),
            queued: Script::new(include_str!("scripts/queued.lua")),
            begin_anew: Script::new(include_str!("scripts/begin_anew.lua")),
        };
        Ok(Self { connection, scripts: Arc::new(scripts) })
    }

    pub(super) async fn glance(&self, buyer: &str) -> Result<Option<Glance>, CacheError> {
        let mut pipe = redis::pipe();
        pipe.atomic().hmget(STOCK, &["left", "version"]).hlen(RESERVATIONS).hget(ORDERS, buyer);
        type Seen = ((Option<i64>, Option<i64>), i64, Option<String>);
        let ((left, version), reserved, order): Seen = pipe.query_async(&mut self.connection.clone()).await?;
        Ok(left.zip(version).map(|(left, version)| Glance {
            stock: Stock { left, version },
            reserved,
            order: order.as_deref().and_then(known),
        }))
    }

    pub(super) async fn reserve(&self, purchase: &Purchase, now: i64) -> Result<Reserved, CacheError> {
        let mut call = on_all(&self.scripts.reserve);
        call.arg(purchase.buyer()).arg(purchase.order()).arg(now);
        let answer: Vec<String> = call.invoke_async(&mut self.connection.clone()).await?;
        let mut words = answer.iter().map(String::as_str);
        Ok(match (words.next(), words.next().and_then(known)) {
            (Some("taken"), _) => Reserved::Taken,
            (Some("before"), _) => Reserved::Before,
            (Some("sold out"), _) => Reserved::SoldOut,
            (Some("known"), Some(known)) => Reserved::Known(known),
            _ => Reserved::Empty,
        })
    }

    pub(super) async fn remember(&self, purchase: &Purchase) -> Result<(), CacheError> {
        let mut pipe = redis::pipe();
        pipe.atomic().hset(RESERVATIONS, purchase.order(), "-").ignore();
        pipe.hset(ORDERS, purchase.buyer(), format!("1 {}", purchase.order())).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn queued(&self, purchase: &Purchase) -> Result<(), CacheError> {
        let mut call = on_all(&self.scripts.queued);
        Ok(call.arg(purchase.order()).invoke_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn seen(&self, stock: Stock) -> Result<(), CacheError> {
        let mut call = on_all(&self.scripts.settle);
        Ok(call.arg(stock.left).arg(stock.version).invoke_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) -> Result<(), CacheError> {
        let mut call = on_all(&self.scripts.settle);
        call.arg(stock.left).arg(stock.version).arg(purchase.buyer()).arg(purchase.order()).arg(u8::from(lives));
        Ok(call.invoke_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn reservations(&self) -> Result<Vec<Reservation>, CacheError> {
        let all: Vec<(String, String)> = self.connection.clone().hgetall(RESERVATIONS).await?;
        let read = |(order, since): &(String, String)| {
            Some(Reservation { purchase: Purchase::of_order(order).ok()?, since: since.parse().ok() })
        };
        Ok(all.iter().filter_map(read).collect())
    }

    pub(super) async fn is_reserved(&self, order: &str) -> Result<bool, CacheError> {
        Ok(self.connection.clone().hexists(RESERVATIONS, order).await?)
    }

    pub(super) async fn begin_anew(&self, stock: Stock) -> Result<(), CacheError> {
        let mut call = on_all(&self.scripts.begin_anew);
        Ok(call.arg(stock.left).arg(stock.version).invoke_async(&mut self.connection.clone()).await?)
    }
}

fn on_all(script: &Script) -> ScriptInvocation<'_> {
    let mut call = script.prepare_invoke();
    call.key(STOCK).key(RESERVATIONS).key(ORDERS);
    call
}

/// What is written of an order: `1 alice.first`.
fn known(text: &str) -> Option<Known> {
    let (lives, order) = text.split_once(' ')?;
    Some(Known { order: order.to_owned(), lives: lives == "1" })
}
