//! A pool for one class of statements.

use std::fmt;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use sqlx::{Database, Describe, Either, Error, Execute, Executor, Pool, SqlStr};

use super::error::refused;
use super::guards::{LimitedConnection, LimitedTransaction};
use super::with_permit::WithPermit;
use crate::bulkhead::{AcquirePermit, ClassHandle};

/// A pool for one class of statements: use `&class` wherever sqlx accepts `&pool`. Cheap to clone.
///
/// Each statement acquires one permit. Statements on one connection share the permit of the connection: see [`ClassPool::acquire`] and [`ClassPool::begin`].
pub struct ClassPool<DB: Database> {
    pool: Pool<DB>,
    handle: ClassHandle,
}

impl<DB: Database> ClassPool<DB> {
    pub(super) const fn new(pool: Pool<DB>, handle: ClassHandle) -> Self {
        Self { pool, handle }
    }

    /// Waits for a permit, then for a connection. The permit is held as long as the connection; statements on it
    /// acquire no further permit.
    pub async fn acquire(&self) -> Result<LimitedConnection<DB>, Error> {
        let permit = self.acquire_permit().await.map_err(refused)?;
        Ok(LimitedConnection::new(permit.guard(self.pool.acquire().await?)))
    }

    /// Returns a connection if a permit and an idle connection are available. Never waits; for callers that already
    /// hold a permit.
    pub fn try_acquire(&self) -> Option<LimitedConnection<DB>> {
        let permit = self.handle.try_acquire().ok()?;
        Some(LimitedConnection::new(permit.guard(self.pool.try_acquire()?)))
    }

    /// Waits for a permit, then for a connection, and begins a transaction on it. The permit is held until the
    /// transaction ends; statements in it acquire no further permit.
    pub async fn begin(&self) -> Result<LimitedTransaction<DB>, Error> {
        let permit = self.acquire_permit().await.map_err(refused)?;
        Ok(LimitedTransaction::new(permit.guard(self.pool.begin().await?)))
    }

    /// Handle of the class, for work other than statements.
    pub const fn handle(&self) -> &ClassHandle {
        &self.handle
    }

    fn acquire_permit(&self) -> AcquirePermit {
        self.handle.acquire()
    }
}

impl<'p, DB: Database> Executor<'p> for &'_ ClassPool<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    type Database = DB;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<DB::QueryResult, DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(WithPermit::new(self.acquire_permit(), self.pool.fetch_many(query)))
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(WithPermit::new(self.acquire_permit(), self.pool.fetch_optional(query)))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [DB::TypeInfo],
    ) -> BoxFuture<'e, Result<DB::Statement, Error>>
    where
        'p: 'e,
    {
        Box::pin(WithPermit::new(self.acquire_permit(), self.pool.prepare_with(sql, parameters)))
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<DB>, Error>>
    where
        'p: 'e,
    {
        Box::pin(WithPermit::new(self.acquire_permit(), self.pool.describe(sql)))
    }
}

impl<DB: Database> Clone for ClassPool<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), handle: self.handle.clone() }
    }
}

impl<DB: Database> fmt::Debug for ClassPool<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassPool").field("class", &self.handle.name()).finish_non_exhaustive()
    }
}
