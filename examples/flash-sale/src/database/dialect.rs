//! Where SQLite and MariaDB differ.

/// The two databases this shop knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// In a file of this machine.
    Sqlite,
    /// A server: MariaDB, or MySQL.
    MySql,
}

impl Dialect {
    /// How a transaction begins that is going to write. SQLite has to be told: one that reads first and
    /// then finds that somebody else has written meanwhile would fail.
    pub(super) const fn begin(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => Some("BEGIN IMMEDIATE"),
            Self::MySql => None,
        }
    }

    /// Reads the item and keeps it from everybody else until the transaction ends. SQLite's writers are
    /// alone anyway.
    pub(super) const fn lock_item(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT stock, version FROM flash_sale_item WHERE id = 1",
            Self::MySql => "SELECT stock, version FROM flash_sale_item WHERE id = 1 FOR UPDATE",
        }
    }

    /// The tables. Names are compared letter by letter: `Alice` and `alice` are two buyers. A buyer is the
    /// `holder` of an order as long as it lives, and of one at most; of those that ended there may be many.
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

    /// Makes sure that there is an item, not yet on sale.
    pub(super) const fn first_item(self) -> &'static str {
        match self {
            Self::Sqlite => "INSERT OR IGNORE INTO flash_sale_item (id, items, stock, version) VALUES (1, 0, 0, 0)",
            Self::MySql => "INSERT IGNORE INTO flash_sale_item (id, items, stock, version) VALUES (1, 0, 0, 0)",
        }
    }
}
