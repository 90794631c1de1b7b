//! An sqlx pool with a bulkhead.

use std::fmt;

use sqlx::{Database, Pool};
use thiserror::Error;

use super::{ClassPool, StatementPool};
use crate::bulkhead::{Bulkhead, BulkheadStatus, UnknownClass};

/// An sqlx pool with a bulkhead. Clones share one state.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use std::time::Duration;
/// use sluicegate::bulkhead::{Bulkhead, Class, LimitedPool};
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
/// let mut transaction = writes.begin().await?; // one permit until it ends
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

/// The capacity of the bulkhead exceeds the size of the pool, so the reserves would have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the bulkhead has a capacity of {capacity}, but the pool has only {connections} connections: lower the capacity"
)]
pub struct CapacityError {
    /// Capacity of the bulkhead.
    pub capacity: usize,
    /// Maximum number of connections of the pool.
    pub connections: u32,
}

impl<DB: Database> LimitedPool<DB> {
    /// Combines a pool and a bulkhead. The capacity of the bulkhead must not exceed the number of connections.
    pub fn new(pool: Pool<DB>, bulkhead: Bulkhead) -> Result<Self, CapacityError> {
        let (capacity, connections) = (bulkhead.capacity(), pool.options().get_max_connections());
        if usize::try_from(connections).is_ok_and(|connections| connections < capacity) {
            return Err(CapacityError { capacity, connections });
        }
        Ok(Self { pool, bulkhead })
    }

    /// Returns the pool for one class of statements. Look it up once at startup.
    pub fn class(&self, name: impl AsRef<str>) -> Result<ClassPool<DB>, UnknownClass> {
        Ok(ClassPool::new(self.pool.clone(), self.bulkhead.class(name)?))
    }

    /// Returns a pool that assigns statements to classes by their text, see [`StatementKind`].
    ///
    /// [`StatementKind`]: super::StatementKind
    pub fn by_statement(
        &self,
        reads: impl AsRef<str>,
        writes: impl AsRef<str>,
    ) -> Result<StatementPool<DB>, UnknownClass> {
        Ok(StatementPool::new(self.class(reads)?, self.class(writes)?))
    }

    /// Status and counters of the bulkhead.
    pub fn status(&self) -> BulkheadStatus {
        self.bulkhead.status()
    }

    /// The underlying pool. Statements on it belong to no class, and may use connections that are reserved for one.
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
