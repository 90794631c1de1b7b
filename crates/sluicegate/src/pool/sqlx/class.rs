//! A pool for one class of statements.

use std::fmt;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use sqlx::{Database, Describe, Either, Error, Execute, Executor, Pool, SqlStr};

use super::guards::{LimitedConnection, LimitedTransaction};
use super::in_place::InPlace;
use super::refused::refused;
use crate::pool::{Entrance, InLine};

/// A pool for one class of statements: `&class` goes wherever sqlx takes `&pool`. Cheap to clone.
///
/// Each statement takes a place of its own. Several on one connection share the place of the connection:
/// see [`LimitedClass::acquire`] and [`LimitedClass::begin`].
pub struct LimitedClass<DB: Database> {
    pool: Pool<DB>,
    entrance: Entrance,
}

impl<DB: Database> LimitedClass<DB> {
    pub(super) const fn new(pool: Pool<DB>, entrance: Entrance) -> Self {
        Self { pool, entrance }
    }

    /// Waits for a place, then for a connection. The place is held as long as the connection; statements
    /// on it take no other.
    pub async fn acquire(&self) -> Result<LimitedConnection<DB>, Error> {
        let place = self.line().await.map_err(refused)?;
        Ok(LimitedConnection::new(place.hold(self.pool.acquire().await?)))
    }

    /// A connection, if there is a place now and an idle connection. Never waits: for those who hold a
    /// place already.
    pub fn try_acquire(&self) -> Option<LimitedConnection<DB>> {
        let place = self.entrance.enter().ok()?;
        Some(LimitedConnection::new(place.hold(self.pool.try_acquire()?)))
    }

    /// Waits for a place, then for a connection, and begins a transaction on it. The place is held until
    /// the transaction ends; statements in it take no other.
    pub async fn begin(&self) -> Result<LimitedTransaction<DB>, Error> {
        let place = self.line().await.map_err(refused)?;
        Ok(LimitedTransaction::new(place.hold(self.pool.begin().await?)))
    }

    /// The way into the bulkhead, for work beside statements.
    pub const fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    fn line(&self) -> InLine {
        self.entrance.acquire()
    }
}

impl<'p, DB: Database> Executor<'p> for &'_ LimitedClass<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    type Database = DB;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<DB::QueryResult, DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(InPlace::new(self.line(), self.pool.fetch_many(query)))
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        Box::pin(InPlace::new(self.line(), self.pool.fetch_optional(query)))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [DB::TypeInfo],
    ) -> BoxFuture<'e, Result<DB::Statement, Error>>
    where
        'p: 'e,
    {
        Box::pin(InPlace::new(self.line(), self.pool.prepare_with(sql, parameters)))
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<DB>, Error>>
    where
        'p: 'e,
    {
        Box::pin(InPlace::new(self.line(), self.pool.describe(sql)))
    }
}

impl<DB: Database> Clone for LimitedClass<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), entrance: self.entrance.clone() }
    }
}

impl<DB: Database> fmt::Debug for LimitedClass<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedClass").field("class", &self.entrance.name()).finish_non_exhaustive()
    }
}
