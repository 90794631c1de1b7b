//! Connects to the database and creates the tables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use sluicegate::bulkhead::{Bulkhead, BulkheadError, CapacityError, Class, LimitedPool, UnknownClass};
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use thiserror::Error;

use super::Database;
use super::dialect::Dialect;
use super::session::Session;
use super::statement_counter::StatementCounter;

/// Size of the connection pool and capacity of the bulkhead.
const CONNECTIONS: u32 = 8;
/// Maximum wait for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(10);
/// Maximum length of the wait queue of each class.
const MAX_WAITING: usize = 2_048;

/// Error while opening the database.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Unknown kind of database.
    #[error("database `{0}`: write sqlite:FILE, or mysql://USER:PASSWORD@HOST:PORT/DATABASE for MariaDB and MySQL")]
    Unknown(String),
    /// In-memory database: each connection would have its own.
    #[error("database `{0}`: an in-memory database is not shared between connections: use a file")]
    InMemory(String),
    /// The directory of the file cannot be created.
    #[error("database `{url}`: cannot create the directory of the file: {error}")]
    Directory {
        /// Database URL.
        url: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The connection failed.
    #[error("database `{url}`: {error}; check that it is running, and the user, password and database name")]
    Connect {
        /// Database URL without the password.
        url: String,
        /// Error of the driver.
        error: sqlx::Error,
    },
    /// The tables cannot be created.
    #[error("database: cannot create the tables `flash_sale_item` and `flash_sale_orders`: {0}")]
    Tables(sqlx::Error),
    /// Invalid bulkhead.
    #[error(transparent)]
    Bulkhead(#[from] BulkheadError),
    /// The bulkhead is larger than the pool.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// Unknown class of the bulkhead.
    #[error(transparent)]
    Class(#[from] UnknownClass),
}

impl Database {
    /// Connects and creates the tables unless they exist.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let (dialect, address) = parse_url(url)?;
        install_default_drivers();
        let pool = AnyPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECTION_WAIT).after_connect(
            move |connection, _| {
                Box::pin(async move {
                    if dialect == Dialect::Sqlite {
                        // WAL: readers do not wait for the writer. Writers wait for each other.
                        sqlx::raw_sql("PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL")
                            .execute(connection)
                            .await?;
                    }
                    Ok(())
                })
            },
        );
        let pool = pool.connect(&address).await;
        let pool = pool.map_err(|error| OpenError::Connect { url: without_password(url), error })?;
        let class = || Class::new().wait(CONNECTION_WAIT).max_waiting(MAX_WAITING);
        let bulkhead = Bulkhead::builder(CONNECTIONS as usize)
            .class("sale", class())
            .class("other", class().reserve(1).importance(1))
            .build()?;
        let pool = LimitedPool::new(pool, bulkhead)?;
        let database = Self {
            sale: pool.class("sale")?,
            other: pool.class("other")?,
            dialect,
            counter: Arc::new(StatementCounter::default()),
        };
        database.create_tables().await.map_err(OpenError::Tables)?;
        database.counter.clear();
        Ok(database)
    }

    async fn create_tables(&self) -> Result<(), sqlx::Error> {
        let mut session = Session::open(&self.other, &self.counter).await?;
        for statement in self.dialect.tables() {
            session.execute(statement, &[]).await?;
        }
        session.execute(self.dialect.first_item(), &[]).await?;
        Ok(())
    }
}

/// Parses a URL into the dialect and the URL for the driver.
fn parse_url(url: &str) -> Result<(Dialect, String), OpenError> {
    if url.starts_with("mysql://") || url.starts_with("mariadb://") {
        return Ok((Dialect::MySql, url.replacen("mariadb://", "mysql://", 1)));
    }
    let file = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    let file = file.filter(|file| !file.is_empty()).ok_or_else(|| OpenError::Unknown(without_password(url)))?;
    if file.contains(":memory:") || file.contains("mode=memory") {
        return Err(OpenError::InMemory(url.to_owned()));
    }
    let path = file.split('?').next().unwrap_or_default();
    if let Some(dir) = Path::new(path).parent() {
        fs::create_dir_all(dir).map_err(|error| OpenError::Directory { url: url.to_owned(), error })?;
    }
    let options = if file.contains('?') { "" } else { "?mode=rwc" };
    Ok((Dialect::Sqlite, format!("sqlite://{file}{options}")))
}

/// Removes the password from a URL.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, host)) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn unsupported_urls_are_refused() {
        assert_eq!(parse_url("mysql://a@h/d").unwrap().0, Dialect::MySql);
        assert_eq!(parse_url("mariadb://a@h/d").unwrap().1, "mysql://a@h/d");
        assert_eq!(parse_url("sqlite:sale.db").unwrap().1, "sqlite://sale.db?mode=rwc");
        for bad in ["", "sqlite:", "postgres://h/d", "sale.db", "redis://h"] {
            assert!(matches!(parse_url(bad), Err(OpenError::Unknown(_))), "{bad}");
        }
        assert!(matches!(parse_url("sqlite::memory:"), Err(OpenError::InMemory(_))));
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("mysql://shop:secret@h:3306/d"), "mysql://shop@h:3306/d");
        assert_eq!(without_password("mysql://shop:se@cret@h/d"), "mysql://shop@h/d");
    }
}
