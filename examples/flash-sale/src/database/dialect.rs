//! Differences between SQLite and MariaDB.

/// Supported databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// SQLite file.
    Sqlite,
    /// MariaDB or MySQL server.
    MySql,
}

impl Dialect {
    /// Statement that begins a write transaction. SQLite needs `IMMEDIATE`: a transaction that reads first fails if
    /// another one writes meanwhile.
    pub(super) const fn begin(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("BEGIN IMMEDIATE"),
            Self::MySql => None,
        }
    }

    /// Reads the item and locks it until the transaction ends. SQLite has only one writer at a time.
    pub(super) const fn lock_item(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT stock, version FROM flash_sale_item WHERE id = 1",
            Self::MySql => "SELECT stock, version FROM flash_sale_item WHERE id = 1 FOR UPDATE",
        }
    }

    /// Statements that create the tables. Names are case-sensitive: `Alice` and `alice` are two buyers. `holder`
    /// contains the buyer while the order is live and is unique; a buyer may have many ended orders.
    pub(super) const fn tables(self) -> [&'static str; 2] {
        match self {
            Self::Sqlite => [
                "CREATE TABLE IF NOT EXISTS flash_sale_item (id INTEGER PRIMARY KEY, items BIGINT NOT NULL, \
                 stock BIGINT NOT NULL CHECK (stock >= 0), version BIGINT NOT NULL)",
                "CREATE TABLE IF NOT EXISTS flash_sale_orders (id VARCHAR(160) PRIMARY KEY, buyer VARCHAR(64) NOT NULL, \
                 holder VARCHAR(64) UNIQUE, state VARCHAR(16) NOT NULL, pay_by BIGINT NOT NULL)",
            ],
            Self::MySql => [
                "CREATE TABLE IF NOT EXISTS flash_sale_item (id BIGINT PRIMARY KEY, items BIGINT NOT NULL, \
                 stock BIGINT NOT NULL CHECK (stock >= 0), version BIGINT NOT NULL) ENGINE = InnoDB",
                "CREATE TABLE IF NOT EXISTS flash_sale_orders (id VARCHAR(160) PRIMARY KEY, buyer VARCHAR(64) NOT NULL, \
                 holder VARCHAR(64) UNIQUE, state VARCHAR(16) NOT NULL, pay_by BIGINT NOT NULL) ENGINE = InnoDB \
                 CHARACTER SET ascii COLLATE ascii_bin",
            ],
        }
    }

    /// Creates the item with no stock, unless it exists.
    pub(super) const fn first_item(self) -> &'static str {
        match self {
            Self::Sqlite => "INSERT OR IGNORE INTO flash_sale_item (id, items, stock, version) VALUES (1, 0, 0, 0)",
            Self::MySql => "INSERT IGNORE INTO flash_sale_item (id, items, stock, version) VALUES (1, 0, 0, 0)",
        }
    }
}
