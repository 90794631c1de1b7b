//! The cache of a shop that is several processes.
//!
//! Four hashes with one hash tag, so that they stand together in a Redis Cluster too: the stock (with `whole` once
//! everything has been told); the reservations (by order: since when, or `-` once it is in the queue, or `!` while it is
//! given back); the orders that live (by buyer); and the traces (by order: for how many reasons the database may know
//! it). What changes more than one of them, or depends on what it finds, is a script. Nothing has an expiry: what is
//! stale is given back by the shop, with the database as witness.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, Client, FromRedisValue, RedisResult, Script, ScriptInvocation};

use super::{CacheError, Look, Queued, Reservation, Reserved, Shut, Stage};
use crate::database::Stock;
use crate::order::Purchase;

const STOCK: &str = "flash-sale:{1}:stock";
const RESERVATIONS: &str = "flash-sale:{1}:reservations";
const ORDERS: &str = "flash-sale:{1}:orders";
const TRACES: &str = "flash-sale:{1}:traces";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The cache. Clones share one connection, which is made again when it breaks.
#[derive(Clone)]
pub struct RedisCache {
    connection: ConnectionManager,
    scripts: Arc<Scripts>,
}

struct Scripts {
    look: Script,
    bought_nothing: Script,
    reserve: Script,
    queued: Script,
    begin_end: Script,
    settle: Script,
    has_no_more: Script,
    whole: Script,
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
            look: Script::new(include_str!("scripts/look.lua")),
            bought_nothing: Script::new(include_str!("scripts/bought_nothing.lua")),
            reserve: Script::new(include_str!("scripts/reserve.lua")),
            queued: Script::new(include_str!("scripts/queued.lua")),
            begin_end: Script::new(include_str!("scripts/begin_end.lua")),
            settle: Script::new(include_str!("scripts/settle.lua")),
            has_no_more: Script::new(include_str!("scripts/has_no_more.lua")),
            whole: Script::new(include_str!("scripts/whole.lua")),
            begin_anew: Script::new(include_str!("scripts/begin_anew.lua")),
        };
        Ok(Self { connection, scripts: Arc::new(scripts) })
    }

    pub(super) async fn look(&self, purchase: &Purchase, asked: bool) -> Result<Look, CacheError> {
        let mut call = on_all(&self.scripts.look);
        call.arg(purchase.buyer()).arg(purchase.order()).arg(u8::from(asked));
        let answer: Vec<String> = self.run(&call).await?;
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        let number = |word: &str| word.parse::<i64>().ok();
        Ok(match words[..] {
            ["open", left, version] => match number(left).zip(number(version)) {
                Some((left, version)) => Look::Open(Stock { left, version }),
                None => Look::Shut(Shut::NotWhole),
            },
            ["reserved"] => Look::Reserved,
            _ => Look::Shut(shut(&words)),
        })
    }

    pub(super) async fn bought_nothing(&self, purchase: &Purchase) -> Result<(), CacheError> {
        self.run(on_all(&self.scripts.bought_nothing).arg(purchase.order())).await
    }

    pub(super) async fn reserve(&self, purchase: &Purchase, now: i64, asked: bool) -> Result<Reserved, CacheError> {
        let mut call = on_all(&self.scripts.reserve);
        call.arg(purchase.buyer()).arg(purchase.order()).arg(u8::from(asked)).arg(now);
        let answer: Vec<String> = self.run(&call).await?;
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["taken"] => Reserved::Taken,
            ["before"] => Reserved::Before,
            ["ending"] => Reserved::Ending,
            _ => Reserved::Shut(shut(&words)),
        })
    }

    pub(super) async fn queued(&self, purchase: &Purchase) -> Result<Queued, CacheError> {
        let mut call = on_all(&self.scripts.queued);
        let answer: String = self.run(call.arg(purchase.buyer()).arg(purchase.order())).await?;
        Ok(match answer.as_str() {
            "kept" => Queued::Kept,
            "ending" => Queued::Ending,
            _ => Queued::Gone,
        })
    }

    pub(super) async fn remember(&self, purchase: &Purchase) -> Result<(), CacheError> {
        let mut pipe = redis::pipe();
        pipe.atomic().hset(RESERVATIONS, purchase.order(), "-").ignore();
        pipe.hset(ORDERS, purchase.buyer(), purchase.order()).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn begin_end(&self, purchase: &Purchase, stale: i64) -> Result<bool, CacheError> {
        self.run(on_all(&self.scripts.begin_end).arg(purchase.order()).arg(stale)).await
    }

    pub(super) async fn seen(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(on_all(&self.scripts.settle).arg(stock.left).arg(stock.version)).await
    }

    pub(super) async fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) -> Result<(), CacheError> {
        let mut call = on_all(&self.scripts.settle);
        call.arg(stock.left).arg(stock.version).arg(purchase.buyer()).arg(purchase.order()).arg(u8::from(lives));
        self.run(&call).await
    }

    pub(super) async fn has_no_more(&self, buyer: &str, order: &str) -> Result<(), CacheError> {
        self.run(on_all(&self.scripts.has_no_more).arg(buyer).arg(order)).await
    }

    pub(super) async fn reservations(&self) -> Result<Vec<Reservation>, CacheError> {
        let all: Vec<(String, String)> = self.connection.clone().hgetall(RESERVATIONS).await?;
        let read = |(order, stage): &(String, String)| {
            Some(Reservation { purchase: Purchase::of_order(order).ok()?, stage: stage_of(stage) })
        };
        Ok(all.iter().filter_map(read).collect())
    }

    pub(super) async fn is_reserved(&self, order: &str) -> Result<bool, CacheError> {
        Ok(self.connection.clone().hexists(RESERVATIONS, order).await?)
    }

    pub(super) async fn version(&self) -> Result<Option<i64>, CacheError> {
        Ok(self.connection.clone().hget(STOCK, "version").await?)
    }

    pub(super) async fn declare_whole(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(on_all(&self.scripts.whole).arg(stock.left).arg(stock.version)).await
    }

    pub(super) async fn forget(&self) -> Result<(), CacheError> {
        Ok(self.connection.clone().del(&[STOCK, RESERVATIONS, ORDERS, TRACES]).await?)
    }

    pub(super) async fn begin_anew(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(on_all(&self.scripts.begin_anew).arg(stock.left).arg(stock.version)).await
    }

    async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, CacheError> {
        Ok(call.invoke_async(&mut self.connection.clone()).await?)
    }
}

fn on_all(script: &Script) -> ScriptInvocation<'_> {
    let mut call = script.prepare_invoke();
    call.key(STOCK).key(RESERVATIONS).key(ORDERS).key(TRACES);
    call
}

/// Why a script lets nobody through.
fn shut(words: &[&str]) -> Shut {
    match words {
        ["has", order] => Shut::Has((*order).to_owned()),
        ["unsure", has @ ..] => Shut::Unsure { has: has.first().map(|order| (*order).to_owned()) },
        ["sold out"] => Shut::SoldOut,
        _ => Shut::NotWhole,
    }
}

fn stage_of(text: &str) -> Stage {
    match text.parse() {
        Ok(since) => Stage::Since(since),
        Err(_) if text == "!" => Stage::Ending,
        Err(_) => Stage::Queued,
    }
}
