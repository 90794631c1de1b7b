//! A database in a file of its own, removed at the end, with a limited pool before it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate::pool::{Builder, Bulkhead, Class, LimitedClass, LimitedPool};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

/// Far longer than anything here takes: only so that a test that hangs fails.
pub(crate) const GUARD: Duration = Duration::from_secs(120);

pub(crate) struct Database {
    folder: PathBuf,
    pub(crate) pool: LimitedPool<Sqlite>,
}

impl Database {
    /// A pool of so many connections, and a bulkhead of as many places.
    pub(crate) async fn new(connections: u32, classes: &[(&str, Class)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-pool-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.join("test.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(GUARD);
        let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(GUARD);
        let pool = pool.connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)").execute(&pool).await.unwrap();
        // The connection goes back in a task of the pool.
        while pool.num_idle() < pool.size() as usize {
            tokio::task::yield_now().await;
        }
        let builder = Bulkhead::builder(connections as usize);
        let builder =
            classes.iter().fold(builder, |builder: Builder, (name, class)| builder.class(name, class.clone()));
        Self { folder, pool: LimitedPool::new(pool, builder.build().unwrap()).unwrap() }
    }

    pub(crate) fn class(&self, name: &str) -> LimitedClass<Sqlite> {
        self.pool.class(name).unwrap()
    }

    /// Connections that are neither idle nor on their way back.
    pub(crate) fn connections_out(&self) -> usize {
        let pool = self.pool.unlimited();
        (pool.size() as usize).saturating_sub(pool.num_idle())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A million rows, of which nobody wants to see the last.
pub(crate) const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n";

pub(crate) fn in_use<DB: sqlx::Database>(class: &LimitedClass<DB>) -> usize {
    class.entrance().status().in_use
}
