//! Connections and transactions that hold a permit.

use std::fmt;
use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Database, Error, Transaction};

use crate::bulkhead::Guarded;

/// A connection that holds a permit of its class. Use it as `&mut *connection`.
pub struct LimitedConnection<DB: Database>(Guarded<PoolConnection<DB>>);

/// A transaction that holds a permit of its class until it ends. Use it as `&mut *transaction`. Dropped
/// before [`LimitedTransaction::commit`], it is rolled back.
pub struct LimitedTransaction<DB: Database>(Guarded<Transaction<'static, DB>>);

impl<DB: Database> LimitedConnection<DB> {
    pub(super) const fn new(guarded: Guarded<PoolConnection<DB>>) -> Self {
        Self(guarded)
    }
}

impl<DB: Database> LimitedTransaction<DB> {
    pub(super) const fn new(guarded: Guarded<Transaction<'static, DB>>) -> Self {
        Self(guarded)
    }

    /// Commits the transaction, then releases the permit.
    pub async fn commit(self) -> Result<(), Error> {
        let (transaction, permit) = Guarded::into_parts(self.0);
        let result = transaction.commit().await;
        drop(permit);
        result
    }

    /// Rolls the transaction back, then releases the permit.
    pub async fn rollback(self) -> Result<(), Error> {
        let (transaction, permit) = Guarded::into_parts(self.0);
        let result = transaction.rollback().await;
        drop(permit);
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
