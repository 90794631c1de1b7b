//! Queries and transactions of the shop.

use sqlx::any::AnyRow;
use sqlx::{Error, Row};

use super::session::{Session, SqlValue, TransactionScope};
use super::{Database, SaleResult, SaleTotals, Stock};
use crate::error::SaleError;
use crate::order::{Order, OrderState, Purchase};

use SqlValue::{Number, Text};

const INSERT_LIVE: &str =
    "INSERT INTO flash_sale_orders (id, buyer, holder, state, pay_by) VALUES (?, ?, ?, 'unpaid', ?)";
const INSERT_ENDED: &str = "INSERT INTO flash_sale_orders (id, buyer, holder, state, pay_by) VALUES (?, ?, NULL, ?, 0)";
const SELECT_OWN_ORDER: &str =
    "SELECT id, state FROM flash_sale_orders WHERE id = ? OR holder = ? ORDER BY id = ? DESC LIMIT 1";
const SELL: &str = "UPDATE flash_sale_item SET stock = stock - 1, version = version + 1 WHERE id = 1 AND stock > 0";
const SELL_VERSION: &str =
    "UPDATE flash_sale_item SET stock = stock - 1, version = version + 1 WHERE id = 1 AND version = ? AND stock > 0";
const RETURN_ITEM: &str = "UPDATE flash_sale_item SET stock = stock + 1, version = version + 1 WHERE id = 1";
const CANCEL: &str = "UPDATE flash_sale_orders SET state = 'cancelled', holder = NULL \
                      WHERE id = ? AND state = 'unpaid' AND pay_by <= ?";
const PAY: &str = "UPDATE flash_sale_orders SET state = 'paid' WHERE id = ? AND state = 'unpaid' AND pay_by > ?";
// One statement for stock and order: a consistent snapshot at the cost of one statement.
const SELECT_STOCK_AND_OWN_ORDER: &str = "SELECT stock, version, orders.id, state FROM flash_sale_item AS item \
                        LEFT JOIN flash_sale_orders AS orders ON orders.id = ? OR holder = ? \
                        WHERE item.id = 1 ORDER BY orders.id = ? DESC LIMIT 1";
const SELECT_OVERDUE: &str = "SELECT stock, version, orders.id FROM flash_sale_item AS item \
                   LEFT JOIN flash_sale_orders AS orders ON state = 'unpaid' AND pay_by <= ? \
                   WHERE item.id = 1 ORDER BY pay_by LIMIT 100";
const SELECT_ORDER: &str = "SELECT id, state FROM flash_sale_orders WHERE id = ?";
const SELECT_STOCK_AND_ORDERS: &str = "SELECT stock, version, orders.id, state FROM flash_sale_item AS item \
                          LEFT JOIN flash_sale_orders AS orders ON orders.id IS NOT NULL WHERE item.id = 1";
const SELECT_STOCK: &str = "SELECT stock, version FROM flash_sale_item WHERE id = 1";
const RESTOCK: &str = "UPDATE flash_sale_item SET items = ?, stock = ?, version = version + 1 WHERE id = 1";
const DELETE_ORDERS: &str = "DELETE FROM flash_sale_orders";
const SELECT_TOTALS: &str = "SELECT items, stock, \
                     (SELECT COUNT(*) FROM flash_sale_orders WHERE state IN ('unpaid', 'paid')), \
                     (SELECT COUNT(*) FROM flash_sale_orders WHERE state = 'paid') \
                     FROM flash_sale_item WHERE id = 1";

impl Database {
    /// Sells an item with pessimistic locking: reads, decides and writes while other transactions wait.
    pub async fn sell_locked(&self, purchase: &Purchase, pay_by: i64) -> Result<SaleResult, SaleError> {
        let mut session = self.buyer_session().await?;
        self.sell_locked_in(&mut session, purchase, pay_by).await
    }

    /// The same for orders from the queue, which do not wait behind buyers.
    pub async fn place_queued(&self, purchase: &Purchase, pay_by: i64) -> Result<SaleResult, SaleError> {
        let mut session = self.other_session().await?;
        self.sell_locked_in(&mut session, purchase, pay_by).await
    }

    async fn sell_locked_in(
        &self,
        session: &mut Session,
        purchase: &Purchase,
        pay_by: i64,
    ) -> Result<SaleResult, SaleError> {
        let mut transaction = session.begin(self.dialect).await?;
        let stock = self.lock_item(&mut transaction).await?;
        if stock.left <= 0 {
            transaction.rollback().await?;
            return Ok(existing_order(session, purchase).await?.unwrap_or(SaleResult::SoldOut(stock)));
        }
        // Insert the order first: if the buyer has one, the stock is not updated.
        if insert(&mut transaction, purchase, pay_by).await? {
            transaction.execute(SELL, &[]).await?;
            transaction.commit().await?;
            return Ok(SaleResult::Sold(stock.with_change(-1)));
        }
        transaction.rollback().await?;
        Ok(existing_order(session, purchase).await?.unwrap_or(SaleResult::LostRace))
    }

    /// Reads the stock without a lock; if no item is left, returns the result of the purchase.
    pub async fn read_stock(&self, purchase: &Purchase) -> Result<Result<Stock, SaleResult>, SaleError> {
        let mut session = self.buyer_session().await?;
        let stock = read_stock_row(session.row(SELECT_STOCK, &[]).await?)?;
        if stock.left > 0 {
            return Ok(Ok(stock));
        }
        Ok(Err(existing_order(&mut session, purchase).await?.unwrap_or(SaleResult::SoldOut(stock))))
    }

    /// Sells an item if its version is still the `expected` one.
    pub async fn sell_unchanged(
        &self,
        purchase: &Purchase,
        expected: Stock,
        pay_by: i64,
    ) -> Result<SaleResult, SaleError> {
        let mut session = self.buyer_session().await?;
        let mut transaction = session.begin(self.dialect).await?;
        if transaction.execute(SELL_VERSION, &[Number(expected.version)]).await? == 0 {
            transaction.rollback().await?;
            return Ok(SaleResult::LostRace);
        }
        if insert(&mut transaction, purchase, pay_by).await? {
            transaction.commit().await?;
            return Ok(SaleResult::Sold(expected.with_change(-1)));
        }
        transaction.rollback().await?;
        Ok(existing_order(&mut session, purchase).await?.unwrap_or(SaleResult::LostRace))
    }

    /// Inserts an ended order that never held an item. An existing order stays unchanged.
    pub async fn insert_ended(&self, purchase: &Purchase, state: OrderState) -> Result<(), SaleError> {
        let mut session = self.other_session().await?;
        let values = [Text(&purchase.order_id()), Text(purchase.buyer()), Text(state.name())];
        match session.execute(INSERT_ENDED, &values).await {
            Err(error) if !is_duplicate(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns the order with this id.
    pub async fn order(&self, id: &str) -> Result<Option<Order>, SaleError> {
        let row = self.other_session().await?.row(SELECT_ORDER, &[Text(id)]).await?;
        row.as_ref().map(read_order_row).transpose()
    }

    /// Returns the stock and all orders, including ended ones.
    pub async fn stock_and_orders(&self) -> Result<(Stock, Vec<Order>), SaleError> {
        let rows = self.other_session().await?.rows(SELECT_STOCK_AND_ORDERS, &[]).await?;
        let orders = rows.iter().filter_map(|row| read_joined_order(row).transpose()).collect::<Result<_, _>>()?;
        Ok((read_stock_row(rows.into_iter().next())?, orders))
    }

    /// Returns the stock and the order of this purchase, or else another live order of the buyer.
    pub async fn stock_and_own_order(&self, purchase: &Purchase) -> Result<(Stock, Option<Order>), SaleError> {
        let id = purchase.order_id();
        let values = [Text(&id), Text(purchase.buyer()), Text(&id)];
        let row = self.buyer_session().await?.row(SELECT_STOCK_AND_OWN_ORDER, &values).await?;
        let found = row.as_ref().map(read_joined_order).transpose()?.flatten();
        Ok((read_stock_row(row)?, found))
    }

    /// Returns the stock.
    pub async fn stock(&self) -> Result<Stock, SaleError> {
        read_stock_row(self.other_session().await?.row(SELECT_STOCK, &[]).await?)
    }

    /// Marks an order as paid if it is unpaid and within its payment window.
    pub async fn pay(&self, id: &str, now: i64) -> Result<bool, SaleError> {
        Ok(self.other_session().await?.execute(PAY, &[Text(id), Number(now)]).await? == 1)
    }

    /// Returns the stock and a limited number of unpaid orders after their payment deadline.
    pub async fn overdue(&self, now: i64) -> Result<(Stock, Vec<String>), SaleError> {
        let rows = self.other_session().await?.rows(SELECT_OVERDUE, &[Number(now)]).await?;
        let ids = rows.iter().filter_map(|row| row.try_get(2).transpose()).collect::<Result<_, Error>>()?;
        Ok((read_stock_row(rows.into_iter().next())?, ids))
    }

    /// Cancels an overdue order and returns its item to the stock. False if the order was paid or already cancelled.
    pub async fn cancel(&self, id: &str, now: i64) -> Result<bool, SaleError> {
        let mut session = self.other_session().await?;
        let mut transaction = session.begin(self.dialect).await?;
        self.lock_item(&mut transaction).await?;
        if transaction.execute(CANCEL, &[Text(id), Number(now)]).await? == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        transaction.execute(RETURN_ITEM, &[]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Starts a new sale: sets the number of items, deletes all orders and resets the statement counter.
    pub async fn restock(&self, items: u32) -> Result<Stock, SaleError> {
        let mut session = self.other_session().await?;
        let mut transaction = session.begin(self.dialect).await?;
        let before = self.lock_item(&mut transaction).await?;
        transaction.execute(DELETE_ORDERS, &[]).await?;
        transaction.execute(RESTOCK, &[Number(i64::from(items)), Number(i64::from(items))]).await?;
        transaction.commit().await?;
        self.counter.clear();
        Ok(Stock { left: i64::from(items), version: before.version + 1 })
    }

    /// Returns the totals.
    pub async fn totals(&self) -> Result<SaleTotals, SaleError> {
        let (statements, stock_updates) = self.counter.read();
        let row = self.other_session().await?.uncounted(SELECT_TOTALS).await?;
        let [items, left, sold, paid] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?];
        Ok(SaleTotals { items, left, sold, paid, statements, stock_updates })
    }

    async fn lock_item(&self, transaction: &mut TransactionScope<'_>) -> Result<Stock, SaleError> {
        read_stock_row(transaction.row(self.dialect.lock_item(), &[]).await?)
    }

    async fn buyer_session(&self) -> Result<Session, Error> {
        Session::open(&self.sale, &self.counter).await
    }

    async fn other_session(&self) -> Result<Session, Error> {
        Session::open(&self.other, &self.counter).await
    }
}

/// Inserts a live order. False if an order with this id or a live order of this buyer exists.
async fn insert(transaction: &mut TransactionScope<'_>, purchase: &Purchase, pay_by: i64) -> Result<bool, Error> {
    let values = [Text(&purchase.order_id()), Text(purchase.buyer()), Text(purchase.buyer()), Number(pay_by)];
    match transaction.execute(INSERT_LIVE, &values).await {
        Ok(_) => Ok(true),
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the order of this purchase, or else another live order of the buyer.
async fn existing_order(session: &mut Session, purchase: &Purchase) -> Result<Option<SaleResult>, SaleError> {
    let id = purchase.order_id();
    let row = session.row(SELECT_OWN_ORDER, &[Text(&id), Text(purchase.buyer()), Text(&id)]).await?;
    Ok(row.as_ref().map(read_order_row).transpose()?.map(SaleResult::Existing))
}

fn read_stock_row(row: Option<AnyRow>) -> Result<Stock, SaleError> {
    let row = row.ok_or_else(|| SaleError::InvalidRow("empty table flash_sale_item".to_owned()))?;
    Ok(Stock { left: row.try_get(0)?, version: row.try_get(1)? })
}

fn read_order_row(row: &AnyRow) -> Result<Order, SaleError> {
    let (id, state): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    parse_order(id, &state)
}

/// Reads the order that is joined to the stock, if any.
fn read_joined_order(row: &AnyRow) -> Result<Option<Order>, SaleError> {
    let (id, state): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
    id.zip(state).map(|(id, state)| parse_order(id, &state)).transpose()
}

fn parse_order(id: String, state: &str) -> Result<Order, SaleError> {
    let state = OrderState::parse(state).ok_or_else(|| SaleError::InvalidRow(format!("order state `{state}`")))?;
    Ok(Order { id, state })
}

fn is_duplicate(error: &Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}
