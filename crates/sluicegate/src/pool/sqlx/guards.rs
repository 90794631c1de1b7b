//! Connections and transactions that hold a place as long as they live.

use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Database, Error, Transaction};

use crate::pool::Held;

/// A connection that holds a place of its class. Use it as `&mut *connection`.
pub struct LimitedConnection<DB: Database>(Held<PoolConnection<DB>>);

/// A transaction that holds a place of its class until it ends. Use it as `&mut *transaction`. Dropped
/// before [`LimitedTransaction::commit`], it is rolled back.
pub struct LimitedTransaction<DB: Database>(Held<Transaction<'static, DB>>);

impl<DB: Database> LimitedConnection<DB> {
    pub(super) const fn new(held: Held<PoolConnection<DB>>) -> Self {
        Self(held)
    }
}

impl<DB: Database> LimitedTransaction<DB> {
    pub(super) const fn new(held: Held<Transaction<'static, DB>>) -> Self {
        Self(held)
    }

    /// Commits it; then the place is free.
    pub async fn commit(self) -> Result<(), Error> {
        let (transaction, place) = Held::into_parts(self.0);
        let result = transaction.commit().await;
        drop(place);
        result
    }

    /// Undoes it; then the place is free.
    pub async fn rollback(self) -> Result<(), Error> {
        let (transaction, place) = Held::into_parts(self.0);
        let result = transaction.rollback().await;
        drop(place);
        result
    }
}

impl<DB: Database> Deref for LimitedConnection<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.0
    }
}

impl<DB: Database> DerefMut for LimitedConnection<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.0
    }
}

impl<DB: Database> Deref for LimitedTransaction<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.0
    }
}

impl<DB: Database> DerefMut for LimitedTransaction<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.0
    }
}

impl<DB: Database> fmt::Debug for LimitedConnection<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LimitedConnection").field(&*self.0).finish()
    }
}

impl<DB: Database> fmt::Debug for LimitedTransaction<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LimitedTransaction").field(&*self.0).finish()
    }
}
