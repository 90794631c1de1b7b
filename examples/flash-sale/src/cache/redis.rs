//! Redis cache for several processes.
//!
//! Four hashes share one hash tag, so that a Redis Cluster keeps them in one slot:
//!
//! - the stock, with the field `complete` after a rebuild;
//! - the reservations by order: the time of the reservation, `-` if the order is in the queue, `!` if it is expiring;
//! - the live orders by buyer;
//! - the number of traces by order.
//!
//! Updates of more than one hash, and conditional updates, are scripts. No key expires: the shop releases stale
//! reservations after a check of the database.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, Client, FromRedisValue, RedisResult, Script, ScriptInvocation};

use super::{BlockReason, CacheError, QueuedReservation, Reservation, ReservationStage, ReserveResult, StockLookup};
use crate::order::Purchase;
use crate::stock::Stock;

const STOCK: &str = "flash-sale:{1}:stock";
const RESERVATIONS: &str = "flash-sale:{1}:reservations";
const ORDERS: &str = "flash-sale:{1}:orders";
const TRACES: &str = "flash-sale:{1}:traces";
/// Response timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Redis cache; clones share one connection, which reconnects automatically.
#[derive(Clone)]
pub struct RedisCache {
    connection: ConnectionManager,
    scripts: Arc<CacheScripts>,
}

struct CacheScripts {
    lookup: Script,
    remove_trace: Script,
    reserve: Script,
    mark_queued: Script,
    begin_expiry: Script,
    settle: Script,
    clear_order: Script,
    mark_complete: Script,
    start_sale: Script,
}

impl RedisCache {
    pub(super) async fn connect(url: &str) -> RedisResult<Self> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_number_of_retries(2)
            .set_max_delay(Duration::from_millis(500));
        let connection = ConnectionManager::new_with_config(Client::open(url)?, config).await?;
        let scripts = CacheScripts {
            lookup: Script::new(include_str!("scripts/lookup.lua")),
            remove_trace: Script::new(include_str!("scripts/remove_trace.lua")),
            reserve: Script::new(include_str!("scripts/reserve.lua")),
            mark_queued: Script::new(include_str!("scripts/mark_queued.lua")),
            begin_expiry: Script::new(include_str!("scripts/begin_expiry.lua")),
            settle: Script::new(include_str!("scripts/settle.lua")),
            clear_order: Script::new(include_str!("scripts/clear_order.lua")),
            mark_complete: Script::new(include_str!("scripts/mark_complete.lua")),
            start_sale: Script::new(include_str!("scripts/start_sale.lua")),
        };
        Ok(Self { connection, scripts: Arc::new(scripts) })
    }

    pub(super) async fn lookup(&self, purchase: &Purchase, confirmed_unknown: bool) -> Result<StockLookup, CacheError> {
        let mut call = with_all_keys(&self.scripts.lookup);
        call.arg(purchase.buyer()).arg(purchase.order_id()).arg(u8::from(confirmed_unknown));
        let reply: Vec<String> = self.run(&call).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        let number = |word: &str| word.parse::<i64>().ok();
        Ok(match words[..] {
            ["available", left, version] => match number(left).zip(number(version)) {
                Some((left, version)) => StockLookup::Available(Stock { left, version }),
                None => StockLookup::Blocked(BlockReason::Incomplete),
            },
            ["reserved"] => StockLookup::Reserved,
            _ => StockLookup::Blocked(block_reason(&words)),
        })
    }

    pub(super) async fn remove_trace(&self, purchase: &Purchase) -> Result<(), CacheError> {
        self.run(with_all_keys(&self.scripts.remove_trace).arg(purchase.order_id())).await
    }

    pub(super) async fn reserve(
        &self,
        purchase: &Purchase,
        now: i64,
        confirmed_unknown: bool,
    ) -> Result<ReserveResult, CacheError> {
        let mut call = with_all_keys(&self.scripts.reserve);
        call.arg(purchase.buyer()).arg(purchase.order_id()).arg(u8::from(confirmed_unknown)).arg(now);
        let reply: Vec<String> = self.run(&call).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["new"] => ReserveResult::New,
            ["existing"] => ReserveResult::Existing,
            ["expiring"] => ReserveResult::Expiring,
            _ => ReserveResult::Blocked(block_reason(&words)),
        })
    }

    pub(super) async fn mark_queued(&self, purchase: &Purchase) -> Result<QueuedReservation, CacheError> {
        let mut call = with_all_keys(&self.scripts.mark_queued);
        let reply: String = self.run(call.arg(purchase.buyer()).arg(purchase.order_id())).await?;
        Ok(match reply.as_str() {
            "kept" => QueuedReservation::Kept,
            "expiring" => QueuedReservation::Expiring,
            _ => QueuedReservation::Gone,
        })
    }

    pub(super) async fn restore_reservation(&self, purchase: &Purchase) -> Result<(), CacheError> {
        let mut pipe = redis::pipe();
        pipe.atomic().hset(RESERVATIONS, purchase.order_id(), "-").ignore();
        pipe.hset(ORDERS, purchase.buyer(), purchase.order_id()).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn begin_expiry(&self, purchase: &Purchase, stale: i64) -> Result<bool, CacheError> {
        self.run(with_all_keys(&self.scripts.begin_expiry).arg(purchase.order_id()).arg(stale)).await
    }

    pub(super) async fn update_stock(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(with_all_keys(&self.scripts.settle).arg(stock.left).arg(stock.version)).await
    }

    pub(super) async fn settle_order(
        &self,
        purchase: &Purchase,
        is_live: bool,
        stock: Stock,
    ) -> Result<(), CacheError> {
        let mut call = with_all_keys(&self.scripts.settle);
        call.arg(stock.left).arg(stock.version).arg(purchase.buyer()).arg(purchase.order_id()).arg(u8::from(is_live));
        self.run(&call).await
    }

    pub(super) async fn clear_order(&self, buyer: &str, order: &str) -> Result<(), CacheError> {
        self.run(with_all_keys(&self.scripts.clear_order).arg(buyer).arg(order)).await
    }

    pub(super) async fn reservations(&self) -> Result<Vec<Reservation>, CacheError> {
        let all: Vec<(String, String)> = self.connection.clone().hgetall(RESERVATIONS).await?;
        let read = |(order, stage): &(String, String)| {
            Some(Reservation { purchase: Purchase::from_order_id(order).ok()?, stage: parse_stage(stage) })
        };
        Ok(all.iter().filter_map(read).collect())
    }

    pub(super) async fn is_reserved(&self, order: &str) -> Result<bool, CacheError> {
        Ok(self.connection.clone().hexists(RESERVATIONS, order).await?)
    }

    pub(super) async fn version(&self) -> Result<Option<i64>, CacheError> {
        Ok(self.connection.clone().hget(STOCK, "version").await?)
    }

    pub(super) async fn mark_complete(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(with_all_keys(&self.scripts.mark_complete).arg(stock.left).arg(stock.version)).await
    }

    pub(super) async fn clear(&self) -> Result<(), CacheError> {
        Ok(self.connection.clone().del(&[STOCK, RESERVATIONS, ORDERS, TRACES]).await?)
    }

    pub(super) async fn start_sale(&self, stock: Stock) -> Result<(), CacheError> {
        self.run(with_all_keys(&self.scripts.start_sale).arg(stock.left).arg(stock.version)).await
    }

    async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, CacheError> {
        Ok(call.invoke_async(&mut self.connection.clone()).await?)
    }
}

fn with_all_keys(script: &Script) -> ScriptInvocation<'_> {
    let mut call = script.prepare_invoke();
    call.key(STOCK).key(RESERVATIONS).key(ORDERS).key(TRACES);
    call
}

/// Parses the reason for a blocked purchase.
fn block_reason(words: &[&str]) -> BlockReason {
    match words {
        ["has reservation", order] => BlockReason::HasReservation((*order).to_owned()),
        ["check database", known_order @ ..] => {
            BlockReason::CheckDatabase { known_order: known_order.first().map(|order| (*order).to_owned()) }
        }
        ["sold out"] => BlockReason::SoldOut,
        _ => BlockReason::Incomplete,
    }
}

fn parse_stage(text: &str) -> ReservationStage {
    match text.parse() {
        Ok(since) => ReservationStage::Since(since),
        Err(_) if text == "!" => ReservationStage::Expiring,
        Err(_) => ReservationStage::Queued,
    }
}
