//! A pool with a bulkhead before it.

use std::fmt;

use sqlx::{Database, Pool};
use thiserror::Error;

use super::{ByStatement, LimitedClass};
use crate::pool::{Bulkhead, Status, UnknownClass};

/// A pool of sqlx with a bulkhead before it. Clones share one state.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use std::time::Duration;
/// use sluicegate::pool::{Bulkhead, Class, LimitedPool};
/// use sqlx::sqlite::SqlitePoolOptions;
///
/// let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// let bulkhead = Bulkhead::builder(1)
///     .class("writes", Class::new().importance(1))
///     .class("reads", Class::new().wait(Duration::from_millis(500)))
///     .build()?;
/// let pool = LimitedPool::new(pool, bulkhead)?;
/// let (reads, writes) = (pool.class("reads")?, pool.class("writes")?);
///
/// sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)").execute(&writes).await?;
/// let mut transaction = writes.begin().await?; // one place until it ends
/// sqlx::query("INSERT INTO orders (item) VALUES ('tea')").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&reads).await?;
/// assert_eq!(orders, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LimitedPool<DB: Database> {
    pool: Pool<DB>,
    bulkhead: Bulkhead,
}

/// A bulkhead lets more in than the pool has connections for, so that its reserves would be void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bulkhead has {places} places, but the pool {connections} connections: make it as large as the pool")]
pub struct TooManyPlaces {
    /// Places of the bulkhead.
    pub places: usize,
    /// The most connections of the pool.
    pub connections: u32,
}

impl<DB: Database> LimitedPool<DB> {
    /// Puts a bulkhead before a pool. It may have fewer places than the pool has connections, not more.
    pub fn new(pool: Pool<DB>, bulkhead: Bulkhead) -> Result<Self, TooManyPlaces> {
        let (places, connections) = (bulkhead.places(), pool.options().get_max_connections());
        if usize::try_from(connections).is_ok_and(|connections| connections < places) {
            return Err(TooManyPlaces { places, connections });
        }
        Ok(Self { pool, bulkhead })
    }

    /// The pool for one class of statements. Ask once and keep it.
    pub fn class(&self, name: impl AsRef<str>) -> Result<LimitedClass<DB>, UnknownClass> {
        Ok(LimitedClass::new(self.pool.clone(), self.bulkhead.class(name)?))
    }

    /// The pool for statements whose class is judged by their text, see [`StatementKind`].
    ///
    /// [`StatementKind`]: super::StatementKind
    pub fn by_statement(
        &self,
        reads: impl AsRef<str>,
        writes: impl AsRef<str>,
    ) -> Result<ByStatement<DB>, UnknownClass> {
        Ok(ByStatement::new(self.class(reads)?, self.class(writes)?))
    }

    /// How the bulkhead stands now, and how statements have fared.
    pub fn status(&self) -> Status {
        self.bulkhead.status()
    }

    /// The pool itself. What is taken from it directly is in no class, and takes connections that were
    /// promised to one.
    pub const fn unlimited(&self) -> &Pool<DB> {
        &self.pool
    }
}

impl<DB: Database> Clone for LimitedPool<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), bulkhead: self.bulkhead.clone() }
    }
}

impl<DB: Database> fmt::Debug for LimitedPool<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedPool").field("pool", &self.pool).field("bulkhead", &self.bulkhead).finish()
    }
}
