//! Stock of the item, in the database and in the cache.

/// Stock of the item. Every change increments the version, so the value with the higher version is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Items left.
    pub left: i64,
    /// Version of the stock.
    pub version: i64,
}

impl Stock {
    /// Stock after a change.
    pub(crate) const fn with_change(self, change: i64) -> Self {
        Self { left: self.left + change, version: self.version + 1 }
    }
}
