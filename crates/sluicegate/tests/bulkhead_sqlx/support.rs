//! A database in a temporary file, with a limited pool.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate::bulkhead::{Bulkhead, BulkheadBuilder, Class, ClassPool, LimitedPool};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

/// Far longer than anything here takes: only so that a test that hangs fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct TestDatabase {
    folder: PathBuf,
    pub(crate) pool: LimitedPool<Sqlite>,
}

impl TestDatabase {
    /// Creates a pool with this many connections, and a bulkhead of the same capacity.
    pub(crate) async fn new(connections: u32, classes: &[(&str, Class)]) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-pool-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.join("test.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(TEST_TIMEOUT);
        let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(TEST_TIMEOUT);
        let pool = pool.connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)").execute(&pool).await.unwrap();
        // A task of the pool returns the connection.
        while pool.num_idle() < pool.size() as usize {
            tokio::task::yield_now().await;
        }
        let builder = Bulkhead::builder(connections as usize);
        let builder =
            classes.iter().fold(builder, |builder: BulkheadBuilder, (name, class)| builder.class(name, class.clone()));
        Self { folder, pool: LimitedPool::new(pool, builder.build().unwrap()).unwrap() }
    }

    pub(crate) fn class(&self, name: &str) -> ClassPool<Sqlite> {
        self.pool.class(name).unwrap()
    }

    /// Connections that are neither idle nor on their way back.
    pub(crate) fn connections_in_use(&self) -> usize {
        let pool = self.pool.unlimited();
        (pool.size() as usize).saturating_sub(pool.num_idle())
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A query with a million rows; tests read only the first ones.
pub(crate) const MILLION_ROWS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n";

pub(crate) fn in_use<DB: sqlx::Database>(class: &ClassPool<DB>) -> usize {
    class.handle().status().in_use
}
