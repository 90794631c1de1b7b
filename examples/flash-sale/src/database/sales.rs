//! Everything the shop asks of its database.

use sqlx::any::AnyRow;
use sqlx::{Error, Row};

use super::session::{Session, Unit, Value};
use super::{Books, Database, Sale, Stock};
use crate::error::SaleError;
use crate::order::{Order, Purchase, State};

use Value::{Number, Text};

const INSERT_LIVE: &str =
    "INSERT INTO flash_sale_orders (id, buyer, holder, state, pay_by) VALUES (?, ?, ?, 'unpaid', ?)";
const INSERT_ENDED: &str = "INSERT INTO flash_sale_orders (id, buyer, holder, state, pay_by) VALUES (?, ?, NULL, ?, 0)";
const MINE: &str = "SELECT id, state FROM flash_sale_orders WHERE id = ? OR holder = ? ORDER BY id = ? DESC LIMIT 1";
const SELL: &str = "UPDATE flash_sale_item SET stock = stock - 1, version = version + 1 WHERE id = 1 AND stock > 0";
const SELL_VERSION: &str =
    "UPDATE flash_sale_item SET stock = stock - 1, version = version + 1 WHERE id = 1 AND version = ? AND stock > 0";
const GIVE_BACK: &str = "UPDATE flash_sale_item SET stock = stock + 1, version = version + 1 WHERE id = 1";
const CANCEL: &str = "UPDATE flash_sale_orders SET state = 'cancelled', holder = NULL \
                      WHERE id = ? AND state = 'unpaid' AND pay_by <= ?";
const PAY: &str = "UPDATE flash_sale_orders SET state = 'paid' WHERE id = ? AND state = 'unpaid' AND pay_by > ?";
// In one statement with the stock: so they are of the same moment, and to know both costs no more than to know one.
const STANDING: &str = "SELECT stock, version, orders.id, state FROM flash_sale_item AS item \
                        LEFT JOIN flash_sale_orders AS orders ON orders.id = ? OR holder = ? \
                        WHERE item.id = 1 ORDER BY orders.id = ? DESC LIMIT 1";
const DUE: &str = "SELECT stock, version, orders.id FROM flash_sale_item AS item \
                   LEFT JOIN flash_sale_orders AS orders ON state = 'unpaid' AND pay_by <= ? \
                   WHERE item.id = 1 ORDER BY pay_by LIMIT 100";
const ORDER: &str = "SELECT id, state FROM flash_sale_orders WHERE id = ?";
const EVERYTHING: &str = "SELECT stock, version, orders.id, state FROM flash_sale_item AS item \
                          LEFT JOIN flash_sale_orders AS orders ON orders.id IS NOT NULL WHERE item.id = 1";
const STOCK: &str = "SELECT stock, version FROM flash_sale_item WHERE id = 1";
const RESTOCK: &str = "UPDATE flash_sale_item SET items = ?, stock = ?, version = version + 1 WHERE id = 1";
const FORGET_ORDERS: &str = "DELETE FROM flash_sale_orders";
const BOOKS: &str = "SELECT items, stock, \
                     (SELECT COUNT(*) FROM flash_sale_orders WHERE state IN ('unpaid', 'paid')), \
                     (SELECT COUNT(*) FROM flash_sale_orders WHERE state = 'paid') \
                     FROM flash_sale_item WHERE id = 1";

impl Database {
    /// Sells an item to whoever has locked it: reads, decides and writes while everybody else waits.
    pub async fn sell_locked(&self, purchase: &Purchase, pay_by: i64) -> Result<Sale, SaleError> {
        let mut session = self.for_buyers().await?;
        self.sell_locked_in(&mut session, purchase, pay_by).await
    }

    /// The same for orders from the queue, which do not stand in line with buyers.
    pub async fn place(&self, purchase: &Purchase, pay_by: i64) -> Result<Sale, SaleError> {
        let mut session = self.for_others().await?;
        self.sell_locked_in(&mut session, purchase, pay_by).await
    }

    async fn sell_locked_in(&self, session: &mut Session, purchase: &Purchase, pay_by: i64) -> Result<Sale, SaleError> {
        let mut unit = session.begin(self.dialect).await?;
        let stock = self.lock_item(&mut unit).await?;
        if stock.left <= 0 {
            unit.rollback().await?;
            return Ok(known(session, purchase).await?.unwrap_or(Sale::SoldOut(stock)));
        }
        // The order first: if the buyer has one, the stock is not even touched.
        if insert(&mut unit, purchase, pay_by).await? {
            unit.execute(SELL, &[]).await?;
            unit.commit().await?;
            return Ok(Sale::Made(stock.after(-1)));
        }
        unit.rollback().await?;
        Ok(known(session, purchase).await?.unwrap_or(Sale::LostRace))
    }

    /// What is left, without a lock; if nothing is, how the buyer's attempt ends.
    pub async fn look(&self, purchase: &Purchase) -> Result<Result<Stock, Sale>, SaleError> {
        let mut session = self.for_buyers().await?;
        let stock = stock(session.row(STOCK, &[]).await?)?;
        if stock.left > 0 {
            return Ok(Ok(stock));
        }
        Ok(Err(known(&mut session, purchase).await?.unwrap_or(Sale::SoldOut(stock))))
    }

    /// Sells an item if nobody has changed it since it was `seen`.
    pub async fn sell_unchanged(&self, purchase: &Purchase, seen: Stock, pay_by: i64) -> Result<Sale, SaleError> {
        let mut session = self.for_buyers().await?;
        let mut unit = session.begin(self.dialect).await?;
        if unit.execute(SELL_VERSION, &[Number(seen.version)]).await? == 0 {
            unit.rollback().await?;
            return Ok(Sale::LostRace);
        }
        if insert(&mut unit, purchase, pay_by).await? {
            unit.commit().await?;
            return Ok(Sale::Made(seen.after(-1)));
        }
        unit.rollback().await?;
        Ok(known(&mut session, purchase).await?.unwrap_or(Sale::LostRace))
    }

    /// Writes down how an order ended that never held an item. If it is known already, what is known stays.
    pub async fn write_ended(&self, purchase: &Purchase, state: State) -> Result<(), SaleError> {
        let mut session = self.for_others().await?;
        let values = [Text(&purchase.order()), Text(purchase.buyer()), Text(state.name())];
        match session.execute(INSERT_ENDED, &values).await {
            Err(error) if !is_duplicate(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The order of this id.
    pub async fn order(&self, id: &str) -> Result<Option<Order>, SaleError> {
        let row = self.for_others().await?.row(ORDER, &[Text(id)]).await?;
        row.as_ref().map(order).transpose()
    }

    /// What is left, and all orders, those that ended too.
    pub async fn everything(&self) -> Result<(Stock, Vec<Order>), SaleError> {
        let rows = self.for_others().await?.rows(EVERYTHING, &[]).await?;
        let orders = rows.iter().filter_map(|row| joined(row).transpose()).collect::<Result<_, _>>()?;
        Ok((stock(rows.into_iter().next())?, orders))
    }

    /// What is left, and what this buyer has: the order asked for, or another that lives.
    pub async fn standing(&self, purchase: &Purchase) -> Result<(Stock, Option<Order>), SaleError> {
        let id = purchase.order();
        let values = [Text(&id), Text(purchase.buyer()), Text(&id)];
        let row = self.for_buyers().await?.row(STANDING, &values).await?;
        let found = row.as_ref().map(joined).transpose()?.flatten();
        Ok((stock(row)?, found))
    }

    /// What is left.
    pub async fn stock(&self) -> Result<Stock, SaleError> {
        stock(self.for_others().await?.row(STOCK, &[]).await?)
    }

    /// Notes that an order was paid, if it still can be.
    pub async fn pay(&self, id: &str, now: i64) -> Result<bool, SaleError> {
        Ok(self.for_others().await?.execute(PAY, &[Text(id), Number(now)]).await? == 1)
    }

    /// What is left, and orders whose time to pay is over, some at a time.
    pub async fn due(&self, now: i64) -> Result<(Stock, Vec<String>), SaleError> {
        let rows = self.for_others().await?.rows(DUE, &[Number(now)]).await?;
        let ids = rows.iter().filter_map(|row| row.try_get(2).transpose()).collect::<Result<_, Error>>()?;
        Ok((stock(rows.into_iter().next())?, ids))
    }

    /// Takes an item back whose order was not paid in time. False if it was paid after all, or somebody
    /// else took it back.
    pub async fn cancel(&self, id: &str, now: i64) -> Result<bool, SaleError> {
        let mut session = self.for_others().await?;
        let mut unit = session.begin(self.dialect).await?;
        self.lock_item(&mut unit).await?;
        if unit.execute(CANCEL, &[Text(id), Number(now)]).await? == 0 {
            unit.rollback().await?;
            return Ok(false);
        }
        unit.execute(GIVE_BACK, &[]).await?;
        unit.commit().await?;
        Ok(true)
    }

    /// Begins a new sale: so many items, and no orders. Statements are counted from zero.
    pub async fn restock(&self, items: u32) -> Result<Stock, SaleError> {
        let mut session = self.for_others().await?;
        let mut unit = session.begin(self.dialect).await?;
        let before = self.lock_item(&mut unit).await?;
        unit.execute(FORGET_ORDERS, &[]).await?;
        unit.execute(RESTOCK, &[Number(i64::from(items)), Number(i64::from(items))]).await?;
        unit.commit().await?;
        self.ledger.clear();
        Ok(Stock { left: i64::from(items), version: before.version + 1 })
    }

    /// The books as they stand.
    pub async fn books(&self) -> Result<Books, SaleError> {
        let (statements, stock_updates) = self.ledger.read();
        let row = self.for_others().await?.uncounted(BOOKS).await?;
        let [items, left, sold, paid] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?];
        Ok(Books { items, left, sold, paid, statements, stock_updates })
    }

    async fn lock_item(&self, unit: &mut Unit<'_>) -> Result<Stock, SaleError> {
        stock(unit.row(self.dialect.lock_item(), &[]).await?)
    }

    async fn for_buyers(&self) -> Result<Session, Error> {
        Session::open(&self.sale, &self.ledger).await
    }

    async fn for_others(&self) -> Result<Session, Error> {
        Session::open(&self.desk, &self.ledger).await
    }
}

/// Writes a live order. False if there is one of this id, or of this buyer.
async fn insert(unit: &mut Unit<'_>, purchase: &Purchase, pay_by: i64) -> Result<bool, Error> {
    let values = [Text(&purchase.order()), Text(purchase.buyer()), Text(purchase.buyer()), Number(pay_by)];
    match unit.execute(INSERT_LIVE, &values).await {
        Ok(_) => Ok(true),
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What this buyer has: the order asked for, or another that lives.
async fn known(session: &mut Session, purchase: &Purchase) -> Result<Option<Sale>, SaleError> {
    let id = purchase.order();
    let row = session.row(MINE, &[Text(&id), Text(purchase.buyer()), Text(&id)]).await?;
    Ok(row.as_ref().map(order).transpose()?.map(Sale::Known))
}

fn stock(row: Option<AnyRow>) -> Result<Stock, SaleError> {
    let row = row.ok_or_else(|| SaleError::Foreign("no item".to_owned()))?;
    Ok(Stock { left: row.try_get(0)?, version: row.try_get(1)? })
}

fn order(row: &AnyRow) -> Result<Order, SaleError> {
    let (id, state): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    read_order(id, &state)
}

/// The order that stands beside the stock, if there is one.
fn joined(row: &AnyRow) -> Result<Option<Order>, SaleError> {
    let (id, state): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
    id.zip(state).map(|(id, state)| read_order(id, &state)).transpose()
}

fn read_order(id: String, state: &str) -> Result<Order, SaleError> {
    let state = State::of(state).ok_or_else(|| SaleError::Foreign(format!("an order that is `{state}`")))?;
    Ok(Order { id, state })
}

fn is_duplicate(error: &Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}
