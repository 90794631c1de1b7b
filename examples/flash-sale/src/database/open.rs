//! From a URL to tables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use sluicegate::pool::{Bulkhead, BulkheadError, Class, LimitedPool, TooManyPlaces, UnknownClass};
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use thiserror::Error;

use super::Database;
use super::dialect::Dialect;
use super::ledger::Ledger;
use super::session::Session;

/// Connections of the pool, and so places of the bulkhead.
const CONNECTIONS: u32 = 8;
/// How long a buyer waits for a connection, and whoever else.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many of each may wait.
const WAITING: usize = 2_048;

/// Why there is no database.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Not one of those this shop knows.
    #[error("database `{0}`: write sqlite:FILE, or mysql://USER:PASSWORD@HOST:PORT/DATABASE for MariaDB and MySQL")]
    Unknown(String),
    /// Each connection would have a database of its own.
    #[error("database `{0}`: a database in memory is a different one for each connection: name a file")]
    InMemory(String),
    /// The file's folder cannot be made.
    #[error("database `{url}`: the folder of the file cannot be made: {error}")]
    Folder {
        /// What was asked for.
        url: String,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot be reached, or does not let us in.
    #[error("database `{url}`: {error}; is it running, and are user, password and database right?")]
    Connect {
        /// What was asked for, without its password.
        url: String,
        /// What the driver said.
        error: sqlx::Error,
    },
    /// The tables cannot be made.
    #[error("database: the tables `flash_sale_item` and `flash_sale_orders` cannot be made: {0}")]
    Tables(sqlx::Error),
    /// The bulkhead does not fit.
    #[error(transparent)]
    Bulkhead(#[from] BulkheadError),
    /// The bulkhead is larger than the pool.
    #[error(transparent)]
    Places(#[from] TooManyPlaces),
    /// A class that is not there.
    #[error(transparent)]
    Class(#[from] UnknownClass),
}

impl Database {
    /// Connects and makes the tables, if they are not there.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let (dialect, address) = understood(url)?;
        install_default_drivers();
        let pool = AnyPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(PATIENCE).after_connect(
            move |connection, _| {
                Box::pin(async move {
                    if dialect == Dialect::Sqlite {
                        // Readers do not wait for the writer, writers wait for each other.
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
        let class = || Class::new().wait(PATIENCE).max_waiting(WAITING);
        let bulkhead = Bulkhead::builder(CONNECTIONS as usize)
            .class("sale", class())
            .class("desk", class().reserve(1).importance(1))
            .build()?;
        let pool = LimitedPool::new(pool, bulkhead)?;
        let database =
            Self { sale: pool.class("sale")?, desk: pool.class("desk")?, dialect, ledger: Arc::new(Ledger::default()) };
        database.make_tables().await.map_err(OpenError::Tables)?;
        database.ledger.clear();
        Ok(database)
    }

    async fn make_tables(&self) -> Result<(), sqlx::Error> {
        let mut session = Session::open(&self.desk, &self.ledger).await?;
        for statement in self.dialect.tables() {
            session.execute(statement, &[]).await?;
        }
        session.execute(self.dialect.first_item(), &[]).await?;
        Ok(())
    }
}

/// What a URL means, and as the driver wants it.
fn understood(url: &str) -> Result<(Dialect, String), OpenError> {
    if url.starts_with("mysql://") || url.starts_with("mariadb://") {
        return Ok((Dialect::MySql, url.replacen("mariadb://", "mysql://", 1)));
    }
    let file = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    let file = file.filter(|file| !file.is_empty()).ok_or_else(|| OpenError::Unknown(without_password(url)))?;
    if file.contains(":memory:") || file.contains("mode=memory") {
        return Err(OpenError::InMemory(url.to_owned()));
    }
    let path = file.split('?').next().unwrap_or_default();
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(folder).map_err(|error| OpenError::Folder { url: url.to_owned(), error })?;
    }
    let options = if file.contains('?') { "" } else { "?mode=rwc" };
    Ok((Dialect::Sqlite, format!("sqlite://{file}{options}")))
}

/// A URL that can be shown.
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
    fn only_what_can_be_a_database_is_tried() {
        assert_eq!(understood("mysql://a@h/d").unwrap().0, Dialect::MySql);
        assert_eq!(understood("mariadb://a@h/d").unwrap().1, "mysql://a@h/d");
        assert_eq!(understood("sqlite:sale.db").unwrap().1, "sqlite://sale.db?mode=rwc");
        for bad in ["", "sqlite:", "postgres://h/d", "sale.db", "redis://h"] {
            assert!(matches!(understood(bad), Err(OpenError::Unknown(_))), "{bad}");
        }
        assert!(matches!(understood("sqlite::memory:"), Err(OpenError::InMemory(_))));
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("mysql://shop:secret@h:3306/d"), "mysql://shop@h:3306/d");
        assert_eq!(without_password("mysql://shop:se@cret@h/d"), "mysql://shop@h/d");
    }
}
