//! A pool that assigns statements to classes by their text.

use std::marker::PhantomData;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use sqlx::error::BoxDynError;
use sqlx::{Database, Describe, Either, Error, Execute, Executor, SqlStr};

use super::{ClassPool, StatementKind};

/// A pool that assigns each statement to a class by its text: use `&pool` wherever sqlx accepts a pool.
///
/// Use it until every statement has an explicit class. Transactions have no text: use [`ClassPool::begin`] of their
/// class.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use sluicegate::bulkhead::{Bulkhead, Class, LimitedPool};
/// use sqlx::sqlite::SqlitePoolOptions;
///
/// let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// let bulkhead = Bulkhead::builder(1).class("reads", Class::new()).class("writes", Class::new()).build()?;
/// let limited = LimitedPool::new(pool, bulkhead)?;
/// let pool = limited.by_statement("reads", "writes")?;
/// sqlx::query("CREATE TABLE orders (item TEXT)").execute(&pool).await?;
/// sqlx::query("INSERT INTO orders VALUES ($1)").bind("tea").execute(&pool).await?;
/// sqlx::query("SELECT item FROM orders").fetch_all(&pool).await?;
/// assert_eq!(pool.reads().handle().status().counts.admitted, 1);
/// assert_eq!(pool.writes().handle().status().counts.admitted, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StatementPool<DB: Database> {
    reads: ClassPool<DB>,
    writes: ClassPool<DB>,
}

impl<DB: Database> StatementPool<DB> {
    pub(super) const fn new(reads: ClassPool<DB>, writes: ClassPool<DB>) -> Self {
        Self { reads, writes }
    }

    /// The class of read-only statements.
    pub const fn reads(&self) -> &ClassPool<DB> {
        &self.reads
    }

    /// The class of all other statements.
    pub const fn writes(&self) -> &ClassPool<DB> {
        &self.writes
    }

    fn class_of(&self, sql: &SqlStr) -> &ClassPool<DB> {
        match StatementKind::of(sql.as_str()) {
            StatementKind::Read => &self.reads,
            StatementKind::Write => &self.writes,
        }
    }
}

/// An inspected query: reading its text consumes the query, so its parts are stored here.
struct InspectedQuery<'q, DB: Database> {
    sql: SqlStr,
    statement: Option<DB::Statement>,
    arguments: Result<Option<DB::Arguments>, BoxDynError>,
    persistent: bool,
    query: PhantomData<&'q ()>,
}

impl<'q, DB: Database> InspectedQuery<'q, DB> {
    fn at(mut query: impl Execute<'q, DB>) -> Self {
        // In the order of the drivers: some values change once the arguments are taken.
        let arguments = query.take_arguments();
        let persistent = query.persistent();
        let statement = query.statement().cloned();
        Self { sql: query.sql(), statement, arguments, persistent, query: PhantomData }
    }
}

impl<'q, DB: Database> Execute<'q, DB> for InspectedQuery<'q, DB> {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&DB::Statement> {
        self.statement.as_ref()
    }

    fn take_arguments(&mut self) -> Result<Option<DB::Arguments>, BoxDynError> {
        std::mem::replace(&mut self.arguments, Ok(None))
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

impl<'p, DB: Database> Executor<'p> for &'_ StatementPool<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    type Database = DB;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<DB::QueryResult, DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        let query = InspectedQuery::at(query);
        self.class_of(&query.sql).fetch_many(query)
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        let query = InspectedQuery::at(query);
        self.class_of(&query.sql).fetch_optional(query)
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [DB::TypeInfo],
    ) -> BoxFuture<'e, Result<DB::Statement, Error>>
    where
        'p: 'e,
    {
        self.class_of(&sql).prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<DB>, Error>>
    where
        'p: 'e,
    {
        self.class_of(&sql).describe(sql)
    }
}

impl<DB: Database> Clone for StatementPool<DB> {
    fn clone(&self) -> Self {
        Self { reads: self.reads.clone(), writes: self.writes.clone() }
    }
}

impl<DB: Database> std::fmt::Debug for StatementPool<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementPool").field("reads", &self.reads).field("writes", &self.writes).finish()
    }
}
